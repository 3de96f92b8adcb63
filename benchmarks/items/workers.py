"""The cost of training with many workers on this machine: launchers on one folder, and Ray.

The sweep is quickstart's. Its cohorts have one run each, and all use the same program, which was compiled before. A
worker has one core (`NPROC=1`), and is pinned to it.

    python -m benchmarks.workers_page    puts the newest result into docs/how_to/clusters.md
"""

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from benchmarks import stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.launch_modes import Launchers, MeasuredSweeps, Ray
from benchmarks.timed_commands import OutOfTime
from jaxmatch.errors import InputError

WAYS = {"launchers": "launchers on one folder", "ray": "--on ray"}
# Way -> its class, the package that it needs, and the extra that installs the package.
KINDS = {"launchers": (Launchers, None, ""), "ray": (Ray, "ray", "ray")}
WORKERS = (1, 2, 4)
# After this many seconds, the remaining measurements are left out.
MOST_SECONDS, MOST_SECONDS_QUICK = 11 * 60, 5 * 60
COHORTS, SECONDS_OF_A_COHORT, MOST_EPOCHS, EPOCHS_TO_MEASURE = 8, 4.0, 400, 5
_EMPTY = {"first_step": "", "task": "", "training": "", "beyond": "", "seconds": None, "times": None, "share": None}
FEW, MANY = 2, 8  # numbers of tiny cohorts, one after another
STARTS = 3


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for each way and number of workers, and notes.

    Raises:
      InputError: processes cannot be pinned on this system.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise InputError("processes cannot be pinned to cores on this system", remedy="measure on Linux")
    quick = settings.quick
    measuring = MeasuredSweeps(settings.scratch, time.time() + (MOST_SECONDS_QUICK if quick else MOST_SECONDS))
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for way, title in WAYS.items():
        for workers in WORKERS:
            named = "one process" if (way, workers) == ("launchers", 1) else title
            cores = cores_text(workers, len(measuring.cores))
            rows[way, workers] = {"way": named, "workers": workers, "cores": cores, **_EMPTY}
    notes = []
    try:
        one = Launchers(measuring)
        one.pinned(1, 1, 1)  # compiles for one core
        epochs = 2 if quick else _epochs(one.pinned(1, EPOCHS_TO_MEASURE, 1).training / EPOCHS_TO_MEASURE)
        cohorts, many = (2, FEW + 1) if quick else (COHORTS, MANY)
        notes += _notes(cohorts, epochs, many)
        for way, (kind, module, extra) in KINDS.items():
            if module and importlib.util.find_spec(module) is None:
                notes.append(f"{WAYS[way]}: not measured; it needs pip install 'jaxmatch[{extra}]'.")
                continue
            try:
                with contextlib.closing(kind(measuring)) as by:
                    _measure(by, way, rows, len(measuring.cores), cohorts, epochs, many, 1 if quick else STARTS)
            except RuntimeError as error:  # the other ways can still be measured
                print(error, file=sys.stderr)
                notes.append(
                    f"{WAYS[way]}: {str(error).splitlines()[0].rstrip(':')}; what is missing was not measured."
                )
    except OutOfTime:
        notes.append("What is missing was not measured, for the time of this benchmark was over.")
    return list(rows.values()), notes


def _epochs(seconds: float) -> int:
    """Returns for how many epochs a cohort is trained if an epoch takes `seconds`."""
    return max(2, min(MOST_EPOCHS, round(SECONDS_OF_A_COHORT / seconds)))


def cores_text(workers: int, cores: int) -> str:
    """Describes on how many of the machine's cores some workers run."""
    return str(workers) if workers <= cores else f"{cores} ({-(-workers // cores)} workers a core)"


def _measure(
    by: Launchers,
    way: str,
    rows: Mapping[tuple[str, int], dict[str, Any]],
    cores: int,
    cohorts: int,
    epochs: int,
    many: int,
    starts: int,
) -> None:
    """Measures a way, and fills in its rows."""
    for workers in (1, 2) if way == "launchers" else (1,):
        if workers == 1:
            by.unpinned(1, 1)  # compiles for all cores
        rows[way, workers]["first_step"] = stopwatch.spread(
            [by.unpinned(workers, workers).first_step for _ in range(starts)]
        )
    one = rows[way, 1]
    few, found = by.pinned(FEW, 1, 1), by.pinned(many, 1, 1)
    more = (many * found.training - FEW * few.training) / (many - FEW)  # the first cohorts of a process train longer
    one |= cost_of_a_task(few.seconds, found.seconds, many, more)
    for workers in WORKERS:
        row = rows[way, workers]
        row["seconds"] = by.pinned(cohorts, epochs, workers).seconds
        row["times"] = one["seconds"] / row["seconds"]
        row["share"] = row["times"] / min(workers, cores)


def cost_of_a_task(few: float, many: float, count: int, training: float) -> dict[str, float]:
    """Returns the cost of one more cohort.

    Arguments:
      few: the seconds of `FEW` cohorts, one after another.
      many: the seconds of `count` cohorts, one after another.
      count: a number of cohorts greater than `FEW`.
      training: the seconds in which one of the further cohorts is trained and scored.
    """
    task = (many - few) / (count - FEW)
    return {"task": task, "training": training, "beyond": task - training}


def _notes(cohorts: int, epochs: int, many: int) -> list[str]:
    return [
        "First step: seconds from the command to the end of the first training step, on all cores, as a listener in "
        "the process that trains notes it. The programs were compiled by an earlier start. Ray's cluster was running, "
        "and had been used.",
        f"A cohort more: ({many} cohorts - {FEW} cohorts) / {many - FEW}, of one epoch each, one after another by one "
        "worker; training and scoring as its records say; the rest is beyond them: data, reading the compiled program, "
        "records, the trained model.",
        f"All: seconds from the command to the last record of {cohorts} equal cohorts of one run and {epochs} epochs, "
        "with the start. A worker has one core, to which it is pinned. Times: that of one worker by the same way, "
        "divided by it; share: of the cores that the workers have together. The command of Ray is beside "
        "the workers.",
    ]


ITEM = Item(
    title="Many workers on one machine: what a start and a cohort cost, and how much faster several are.",
    needs=(),
    columns=(
        Column("way", "way"),
        Column("workers", "workers", "d"),
        Column("cores", "cores"),
        Column("first_step", "first step, s", ".2f"),
        Column("task", "a cohort more, s", ".2f"),
        Column("training", "of it training, s", ".2f"),
        Column("beyond", "beyond, s", ".2f"),
        Column("seconds", "all, s", ".1f"),
        Column("times", "times one worker", ".2f"),
        Column("share", "share", ".2f"),
    ),
    run=run,
)
