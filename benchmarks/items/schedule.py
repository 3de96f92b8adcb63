"""A simulation of the order in which an engine trains many cohorts on many workers that may die.

The simulated order is that of `sweep/on_ray.py`: the longest cohort first, and a cohort whose worker died before the
waiting ones.
"""

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.item import Column, Item, Settings

COHORTS, WORKERS = 1000, 64
# Seconds of training: half of the cohorts are below the median, and one in twenty is above about five times it.
MEDIAN, SPREAD = 600.0, 1.0
# Seconds for a worker's start and compilation, between two checkpoints, and until a dead worker is replaced.
START, CHECKPOINT, REPLACED = 60.0, 60.0, 120.0
# Mean hours until a worker dies; None: never.
MEAN_LIFETIMES = (None, 24.0, 4.0)


def simulated(
    durations: Sequence[float], workers: int, life: float | None, start: float, draw: np.random.Generator
) -> tuple[float, int]:
    """Simulates the training of cohorts in the given order.

    Arguments:
      durations: the seconds of training of each cohort.
      workers: the number of workers that train at the same time.
      life: the mean seconds until a worker dies; None: never.
      start: the seconds before a worker trains, also after a death.
      draw: the generator that draws the deaths.

    Returns:
      The seconds until all cohorts are trained, and the number of deaths.
    """
    waiting, free, deaths, end = list(durations)[::-1], [0.0] * workers, 0, 0.0
    heapq.heapify(free)
    interrupted: list[tuple[float, float]] = []  # (time of death, seconds remaining) of cohorts whose worker died
    while waiting or interrupted:
        now = heapq.heappop(free)
        if interrupted and (interrupted[0][0] <= now or not waiting):
            died_at, remaining = heapq.heappop(interrupted)
            now = max(now, died_at)
        else:
            remaining = waiting.pop()
        lifetime = np.inf if life is None else draw.exponential(life)
        if lifetime >= start + remaining:
            end = max(end, now + start + remaining)
            heapq.heappush(free, now + start + remaining)
            continue
        deaths += 1
        kept = max(0.0, lifetime - start) // CHECKPOINT * CHECKPOINT
        heapq.heappush(interrupted, (now + lifetime, remaining - kept))
        heapq.heappush(free, now + lifetime + REPLACED)
    return end, deaths


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for each mean life of a worker and each order, and a note."""
    cohorts, workers = (20, 4) if settings.quick else (COHORTS, WORKERS)
    durations = np.random.default_rng(0).lognormal(np.log(MEDIAN), SPREAD, cohorts)
    # No order can end before the longest cohort, nor before all workers have done their share.
    bound = max(START + durations.max(), (durations + START).sum() / workers)
    rows = []
    for life in MEAN_LIFETIMES:
        for order, ordered in (("longest first", np.sort(durations)[::-1]), ("as they come", durations)):
            seconds = None if life is None else 3600 * life
            took, deaths = simulated(ordered, workers, seconds, START, np.random.default_rng(1))
            rows.append(
                {
                    "life": "none dies" if life is None else f"{life:g} h",
                    "order": order,
                    "deaths": str(deaths),
                    "hours": took / 3600,
                    "bound": bound / 3600,
                    "ratio": took / bound,
                }
            )
    return rows, [
        f"Simulated, not run: {cohorts:,} cohorts of {MEDIAN / 60:.0f} minutes in the median, at most "
        f"{durations.max() / 3600:.1f} h, on {workers} workers. A start takes {START:.0f} s, a checkpoint is written "
        f"every {CHECKPOINT:.0f} s, and a dead worker is replaced after {REPLACED:.0f} s. No order can end before the "
        "bound: the longest cohort, or the work divided by the workers, without deaths."
    ]


ITEM = Item(
    title="Many cohorts on many workers, simulated.",
    needs=(),
    columns=(
        Column("life", "mean life of a worker"),
        Column("order", "order"),
        Column("deaths", "deaths"),
        Column("hours", "hours", ".2f"),
        Column("bound", "bound, hours", ".2f"),
        Column("ratio", "times the bound", ".3f"),
    ),
    run=run,
)
