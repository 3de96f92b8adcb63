"""Training many runs at once: the cost of a run among others, compared with a run alone, the public PyTorch RE2, and
the device's peak.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from benchmarks import ceiling, steps, stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.peer import SORT_BY_LEN, Peer, PeerEnded, peer_settings, write_peer_data
from jaxmatch.data.encoding import EncodedData
from jaxmatch.sweep import plan

REPLICAS = (1, 2, 4, 8, 10, 16, 32, 64)
BATCHES = (64, 128, 512)
# A point whose step lasts longer than LONG_STEP_SECONDS is timed by itself, unless it is the first after a
# single run. It has a third of the rounds, or fewer (at least one) if its steps would last longer than
# LONG_POINT_SECONDS together.
LONG_STEP_SECONDS = 6.0
LONG_POINT_SECONDS = 30.0
# The most that a run may cost among others, relative to its cost alone.
CPU_GOAL = 1.05
# (replicas, batch) -> the same on an accelerator: ten runs in twice the time of one.
ACCELERATOR_GOALS = {(10, 128): 0.2}
# (replicas, batch) -> the minimum of our pairs per second on an accelerator, as a multiple of the sorted peer's.
PEER_GOALS = {(10, 512): 10.0, (10, 64): 30.0}
# The precisions of matrix products that the peer also has.
PEER_PRECISIONS = ("float32", "TF32")
# (replicas, batch) -> the minimum share of the measured ceiling, on an accelerator.
CEILING_GOALS = {(10, 512): 0.35}


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns rows for every batch size and number of replicas, and precision if the device has several, and notes."""
    rows = []
    with measuring(settings) as (series, notes):
        for batch in (16,) if settings.quick else BATCHES:
            rows += series(batch, (1, 2, 3) if settings.quick else REPLICAS)
            if jax.default_backend() != "cpu" and batch == max(BATCHES):
                rows += series(batch, (1, 10), model__precision="bfloat16")
        return rows, notes


@contextlib.contextmanager
def measuring(settings: Settings) -> Iterator[tuple[Callable[..., list[dict[str, Any]]], list[str]]]:
    """Yields a function that measures a series, and the notes on all series.

    The function takes a batch size, numbers of replicas, the first of which is 1, and changes to the config. It returns
    the rows of the series.
    """
    name, small = ("re2_embedded_inference", steps.SMALL) if settings.quick else ("re2_snli", {})
    base = settings.config(name, **small)
    data = plan.prepare(base)
    length = steps.typical_length(base, data)
    operations = ceiling.measure(settings.rounds, sides=(128,) if settings.quick else None)
    notes = _notes(data, length, operations, max(1, settings.rounds // 3))
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(Peer(settings.peer, settings.peer_python)) if settings.peer else None
        folder = str(write_peer_data(data, settings.scratch / "replicas")) if peer else ""
        if peer:
            notes.append(
                f"Peer: {peer.name}; one run after another, its own batches, padded to their longest sentences, as "
                "released and sorted by length (its `sort_by_len`). It has no bfloat16, so rows of bfloat16 are not "
                "compared with it."
            )

        def series(batch: int, replicas: Sequence[int], **changes: Any) -> list[dict[str, Any]]:
            nonlocal peer
            config = settings.config(name, **{**small, "training__batch_size": batch, **changes})
            arguments = config, data, length, tuple(replicas), settings, operations
            try:
                return _series(*arguments, (peer, folder))
            except PeerEnded:
                peer = None
                notes.append(f"The peer's process ended at batch {batch}: from there on the rows are without it.")
                return _series(*arguments, (None, ""))

        yield series, notes


def _series(
    config: Any,
    data: EncodedData,
    length: int,
    replicas: tuple[int, ...],
    settings: Settings,
    operations: Mapping[str, float],
    peer: tuple[Peer | None, str],
) -> list[dict[str, Any]]:
    """Measures the rows of one batch size and precision."""
    batch = config.training.batch_size
    points, reasons = {1: steps.Steps(config, data, replicas=1, length=length)}, {}
    alone = points[1].seconds()
    first, long = replicas[1], []
    for count in replicas[1:]:
        lasts = 0.0 if count == first else count * alone
        reasons[count] = reason_to_skip(lasts, settings.longest_step)
        if not reasons[count] and lasts > LONG_STEP_SECONDS:
            long.append(count)
        elif not reasons[count]:
            points[count] = steps.Steps(config, data, replicas=count, length=length)
    candidates = {str(count): point.seconds for count, point in points.items()}
    precision = config.model.precision if config.model.precision == "bfloat16" else ceiling.default_products()
    process, folder = peer
    if precision not in PEER_PRECISIONS:
        process = None
    if process:
        process.build(peer_settings(config, data), folder)
        # On a GPU, the time of the peer's step hardly depends on its length, so one step would say little.
        least = 1 if jax.default_backend() == "cpu" else 8
        candidates |= process.training(max(least, 512 // batch))
    seconds = stopwatch.in_turn(candidates, settings.rounds)
    peers = {key: candidates[key] for key in SORT_BY_LEN if process}
    # Replicas -> seconds of their steps, of the steps of a run alone in the same rounds, and of the peer's pairs.
    times = {count: (seconds[str(count)], seconds["1"], {key: seconds[key] for key in peers}) for count in points}
    for count in long:
        rounds = max(1, min(settings.rounds // 3, int(LONG_POINT_SECONDS / (count * alone))))
        seconds = time_long_point(config, data, length, count, points[1], peers, rounds)
        times[count] = seconds["all"], seconds["alone"], {key: seconds[key] for key in peers}
    steps_at_the_ceiling = operations[precision] / steps.operations_of_a_step(config, data, length)
    rows = []
    named = name_of_products(config.model.precision, precision)
    for count in replicas:
        row: dict[str, Any] = {"precision": named, "batch": batch, "replicas": count}
        measured = _figures(count, batch, *times[count], steps_at_the_ceiling) if count in times else {}
        goal = goals(count, batch, measured, precision)
        rows.append({**row, **measured, "goal": goal, "remark": "" if measured else reasons[count]})
    return rows


def _figures(
    count: int,
    batch: int,
    own: Sequence[float],
    alone: Sequence[float],
    peers: Mapping[str, Sequence[float]],
    steps_at_the_ceiling: float,
) -> dict[str, Any]:
    """Returns the figures of a measured point.

    Arguments:
      count: the number of runs that train together.
      batch: the pairs in a step of each run.
      own: seconds of a step of all runs, for each round.
      alone: seconds of a step of a run alone, in the same rounds.
      peers: column -> seconds of a pair in the peer's training, in the same rounds; empty without a peer.
      steps_at_the_ceiling: the steps of one run per second, if its matrix products ran at the measured ceiling.
    """
    figures = {
        "milliseconds": stopwatch.spread([1e3 * one for one in own]),
        "ratio": stopwatch.ratio(own, [count * one for one in alone]),
        "pairs": stopwatch.spread([count * batch / one for one in own]),
        "share": stopwatch.spread([count / one / steps_at_the_ceiling for one in own]),
    }
    for key, pair_seconds in peers.items():
        figures[key] = stopwatch.ratio([count * batch * one for one in pair_seconds], own)
    return figures


def name_of_products(model_precision: str, precision: str) -> str:
    """Returns how a row names the precision of its products. On a TPU, that of float32 values is bfloat16, too."""
    of_float32 = precision == "bfloat16" != model_precision
    return f"{precision}, of float32 values" if of_float32 else precision


def time_long_point(
    config: Any,
    data: EncodedData,
    length: int,
    count: int,
    alone: steps.Steps,
    peers: Mapping[str, Callable[[], float]],
    rounds: int,
) -> dict[str, list[float]]:
    """Measures the seconds of a long step of `count` runs, of a step of a run alone and of the peer's pairs, in turn.
    All are warm (`Steps.seconds`).
    """

    def alone_seconds() -> float:
        alone.mean_step_seconds(1)
        return alone.mean_step_seconds(max(1, count // 4))

    candidates = {"all": steps.Steps(config, data, replicas=count, length=length).seconds, "alone": alone_seconds}
    return stopwatch.in_turn(candidates | peers, rounds, warm=0)


def reason_to_skip(lasts: float, longest: float) -> str:
    """Returns why a point whose step lasts about `lasts` seconds is not measured, or ""."""
    return f"a step of about {lasts:.0f} s; --longest-step" if lasts > longest else ""


def goals(replicas: int, batch: int, measured: Mapping[str, Any], precision: str = "float32") -> str:
    """Returns the goals and whether they were met, as text; empty without goals. Products that the peer cannot compute
    are not compared with it.
    """
    if jax.default_backend() == "cpu":
        costs = {(replicas, batch): CPU_GOAL} if replicas > 1 else {}
        criteria = [("a run ≤ {:.2f}", "ratio", costs)]
    else:
        criteria = [
            ("a run ≤ {:.2f}", "ratio", ACCELERATOR_GOALS),
            ("sorted peer ≥ {:.0f}", "sorted", PEER_GOALS if precision in PEER_PRECISIONS else {}),
            ("ceiling ≥ {:.0%}", "share", CEILING_GOALS),
        ]
    verdicts = []
    for words, key, wanted in criteria:
        if (goal := wanted.get((replicas, batch))) is not None:
            found = measured[key]["median"] if key in measured else None
            met = None if found is None else found <= goal if key == "ratio" else found >= goal
            verdicts.append(stopwatch.verdict(words.format(goal), met))
    return "; ".join(verdicts)


def _notes(data: EncodedData, length: int, operations: Mapping[str, float], rounds: int) -> list[str]:
    measured = ", ".join(f"{speed / 1e12:.3g} TFLOP/s in {name}" for name, speed in operations.items())
    return [
        f"{data.name}: pairs of {length} tokens, the mean over an epoch with padding; one device.",
        f"Ceiling: the fastest product of large square matrices in the same run, {measured}. Counted for a share of "
        "it: the floating-point operations of a step, as XLA counts them.",
        f"Matrix products of float32 numbers run in {ceiling.default_products()} on this device, JAX's default for it.",
        "A run's cost: its part of a step, of the step of one run alone, timed in turn with it. Where the step of all "
        f"lasts more than {LONG_STEP_SECONDS:.0f} s, and it is not the first after a run alone, it is timed by itself, "
        f"in turn with a quarter as many steps of a run alone as there are runs: {rounds} times, or fewer, but once, "
        f"where those steps would last more than {LONG_POINT_SECONDS:.0f} s together.",
    ]


ITEM = Item(
    title="Training many runs at once, the released SNLI setting (3 blocks, hidden 150).",
    needs=("vectors",),
    columns=(
        Column("precision", "products in"),
        Column("batch", "batch", "d"),
        Column("replicas", "runs", "d"),
        Column("milliseconds", "step of all, ms", ",.1f"),
        Column("ratio", "a run's cost, alone = 1", ".3f"),
        Column("pairs", "pairs/s", ",.0f"),
        Column("peer", "times the peer as released", ".1f"),
        Column("sorted", "times the peer sorted", ".1f"),
        Column("share", "of the ceiling", ".1%"),
        Column("goal", "goal"),
        Column("remark", "left out because"),
    ),
    run=run,
)
