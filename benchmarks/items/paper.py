"""The estimated time to train everything in RE2's tables on this device, from the throughput at the real lengths."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import steps, stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.peer import SORT_BY_LEN, Peer, peer_settings, write_peer_data
from jaxmatch.data.encoding import EncodedData
from jaxmatch.errors import InputError
from jaxmatch.papers import re2
from jaxmatch.papers.re2 import SEEDS, UP_TO
from jaxmatch.sweep import plan
from jaxmatch.training.evaluation import EVALUATION_BUCKETS

# The numbers of runs at once to try on an accelerator. A CPU trains one, because a run costs the same there with
# others.
REPLICAS = (10, 5, 1)
# The lengths to measure on a CPU, as quantiles of the tokens of an epoch. The other lengths are read off the line
# through them.
QUANTILES = (0.25, 0.85)
# The cost of evaluating a pair, relative to training on it: the forward pass is a third, in products and in code to
# compile.
EVALUATION_COST = 1 / 3
# The peer's pairs in one measurement: two batches or more.
PEER_PAIRS = 1024
GOAL = "under 4 on an H100 or H200"
HOUR = 3600.0
# Data set -> (config, number of training pairs of the full set).
_IN_PAPER = [data for data in re2.DATA_SETS.values() if data.main_table]
DATA_SETS = {data.title: (data.config, data.training_pairs) for data in _IN_PAPER}
_MAIN = {data.title: data.main_table for data in _IN_PAPER}
_ROBUSTNESS = tuple(re2.DATA_SETS[name].title for name in ("snli", "quora", "scitail"))


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table for one data set.

    Attributes:
      table: the number of the table in the paper.
      data_set: a key of `DATA_SETS`.
      name: the name of the row.
      changes: the fields of the released `config.model` that the row changes.
      new: whether no earlier row has the same settings.
    """

    table: str
    data_set: str
    name: str
    changes: Mapping[str, Any]
    new: bool


def paper_rows(models: Mapping[str, Mapping[str, Any]], up_to: int = UP_TO) -> Iterator[Row]:
    """Yields all rows, table by table.

    Arguments:
      models: data set -> its released `config.model`. Data sets that are not in it are left out.
      up_to: the highest number of blocks and of encoder layers in Table 7.
    """
    trained: list[tuple[str, dict[str, Any]]] = []
    main = [(_MAIN[name], name, {"RE2": {}}) for name in models]
    sixth = [("6", name, re2.ablations(model)) for name, model in models.items()]
    seventh = [("7", name, re2.robustness(up_to)) for name in models if name in _ROBUSTNESS]
    for table, data_set, variants in main + sixth + seventh:
        for name, changes in variants.items():
            settings = (data_set, {**models[data_set], **changes})
            yield Row(table, data_set, name, changes, settings not in trained)
            trained.append(settings)


@dataclasses.dataclass(frozen=True)
class Throughput:
    """The throughput on one data set with the released setting.

    Attributes:
      config, data: the config and the data of the data set.
      replicas: the number of runs at once.
      length: the mean length over an epoch, at which variants are compared.
      pair_seconds: seconds in which one run trains on one pair of an epoch.
      peer_pair_seconds: column -> the same for the peer, as released and sorted; empty without a peer.
      ratios: column -> peer_pair_seconds / pair_seconds of the same rounds, a spread.
      compile_seconds: seconds to compile all programs of a signature.
    """

    config: Any
    data: EncodedData
    replicas: int
    length: int
    pair_seconds: float
    peer_pair_seconds: Mapping[str, float]
    ratios: Mapping[str, Mapping[str, float]]
    compile_seconds: float


def interpolated(points: Mapping[int, float], length: float) -> float:
    """Interpolates the seconds at a length from those at other lengths: linear between neighbors and beyond the ends. A
    single point is scaled in proportion to the length.

    Arguments:
      points: length -> seconds.
      length: the tokens of a pair.
    """
    known = sorted(points)
    if len(known) == 1:
        return points[known[0]] * length / known[0]
    after = min(max(int(np.searchsorted(known, length)), 1), len(known) - 1)
    low, high = known[after - 1], known[after]
    share = (length - low) / (high - low)
    # Never less than in proportion to the shortest length, because a line through noise may reach zero.
    return max((1 - share) * points[low] + share * points[high], points[known[0]] * min(1.0, length / known[0]))


def chosen_lengths(shares: Mapping[int, float], quantiles: Sequence[float]) -> list[int]:
    """Returns the buckets at which the given shares of an epoch's tokens are reached."""
    lengths = sorted(length for length, share in shares.items() if share)
    tokens = np.cumsum([length * shares[length] for length in lengths])
    return sorted({lengths[int(np.searchsorted(tokens, quantile * tokens[-1]))] for quantile in quantiles})


def epoch_pair_seconds(points: Mapping[int, float], shares: Mapping[int, float]) -> float:
    """Returns the mean seconds of a pair over an epoch.

    Arguments:
      points: length -> the seconds of one pair, where they were measured.
      shares: length of a bucket -> the share of the pairs in it.
    """
    return sum(share * interpolated(points, length) for length, share in shares.items() if share)


def measure(settings: Settings, config: Any, data: EncodedData, peer: Peer | None, folder: str) -> Throughput:
    """Measures the throughput of the released setting, ours and the peer's in turn."""
    shares = steps.bucket_shares(config, data)
    typical = steps.typical_length(config, data)
    replicas = 1
    if jax.default_backend() != "cpu":
        tried = {count: steps.Steps(config, data, replicas=count, length=typical) for count in REPLICAS}
        replicas = min(tried, key=lambda count: tried[count].seconds() / count)
        del tried
    lengths = [length for length, share in shares.items() if share]
    if jax.default_backend() == "cpu":
        lengths = chosen_lengths(shares, QUANTILES[: 1 if settings.quick else None])
    measured = [steps.Steps(config, data, replicas=replicas, length=length) for length in lengths]
    candidates = {str(number): one.seconds for number, one in enumerate(measured)}
    if peer:
        peer.build(peer_settings(config, data), folder)
        candidates |= peer.training(max(1, PEER_PAIRS // config.training.batch_size))
    seconds = stopwatch.in_turn(candidates, settings.rounds)
    ours = [
        epoch_pair_seconds({one.length: values[number] / one.pairs for number, one in enumerate(measured)}, shares)
        for values in zip(*(seconds[str(number)] for number in range(len(measured))), strict=True)
    ]
    # Programs that were compiled before have no compile time.
    compiled = [one.compile_seconds for one in measured if one.compile_seconds] or [0.0]
    return Throughput(
        config=config,
        data=data,
        replicas=replicas,
        length=typical,
        pair_seconds=stopwatch.spread(ours)["median"],
        peer_pair_seconds={key: stopwatch.spread(seconds[key])["median"] for key in SORT_BY_LEN if peer},
        ratios={key: stopwatch.ratio(seconds[key], ours) for key in SORT_BY_LEN if peer},
        compile_seconds=float(np.mean(compiled)) * (len(shares) + EVALUATION_BUCKETS * EVALUATION_COST),
    )


def row_hours(throughput: Throughput, full_pairs: int, changes: Mapping[str, Any]) -> dict[str, float]:
    """Estimates the hours of one row's runs: {"train", "compile", "peer", "sorted"}, the last two only if the peer was
    measured. All but "compile" include evaluation.

    Arguments:
      throughput: the throughput of the released setting.
      full_pairs: the training pairs of the full data set.
      changes: the changes of the row to the model. Hours of training grow with the multiply-adds of the program, and
        hours of compilation with its products.
    """
    config, data = throughput.config, throughput.data
    variant = config.copy_and_resolve_references()
    with variant.unlocked():
        variant.model.update(changes)
    base, own = (_work(one, data, throughput.length) for one in (config, variant))
    dev = data.splits["dev"].pairs if "dev" in data.splits else 0
    pairs = SEEDS * config.training.epochs * (full_pairs + EVALUATION_COST * dev)
    work = own[0] / base[0]
    hours = {
        "train": work * pairs * throughput.pair_seconds / HOUR,
        "compile": own[1] / base[1] * throughput.compile_seconds / HOUR,
    }
    return hours | {key: work * pairs * one / HOUR for key, one in throughput.peer_pair_seconds.items()}


def _work(config: Any, data: EncodedData, length: int) -> tuple[float, int]:
    """Returns the operations of a training step of one run, as XLA counts them, and the number of its products."""
    program = steps.lowered_for(config, data, length)
    return program.cost_analysis()["flops"], program.as_text().count("dot_general")


def summed(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the sum of rows. A column that one of the rows lacks is None."""
    keys = ("rows", "runs", "train", "compile", "total", *SORT_BY_LEN)
    total = {
        key: None if any(part.get(key) is None for part in parts) else sum(part[key] for part in parts) for key in keys
    }
    for key, ratio in (("peer", "ratio"), ("sorted", "sorted_ratio")):
        total[ratio] = total[key] / total["total"] if total[key] is not None and total["total"] else None
    return total


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for each table and data set, a row for their sum, and notes."""
    measured: dict[str, Throughput] = {}
    missing: list[str] = []
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(Peer(settings.peer, settings.peer_python)) if settings.peer else None
        for name, (file, _) in DATA_SETS.items():
            if settings.quick and measured:  # one data set shows as well as four that it runs
                break
            config = (
                settings.config("re2_embedded_inference", **steps.SMALL) if settings.quick else settings.config(file)
            )
            try:
                data = plan.prepare(config)
            except InputError as error:
                missing.append(f"{name} is left out, and the sum is without it: {error.args[0]}.")
                continue
            folder = str(write_peer_data(data, settings.scratch / f"paper-{name}")) if peer else ""
            measured[name] = measure(settings, config, data, peer, folder)
    rows = table_rows(measured, up_to=1 if settings.quick else UP_TO)
    named = [f"The peer is {peer.name}."] if peer else []
    return rows, missing + _notes(measured, rows) + named


def table_rows(measured: Mapping[str, Throughput], up_to: int = UP_TO) -> list[dict[str, Any]]:
    """Computes the rows of the tables from the throughput of each data set. `up_to` is that of `paper_rows`."""
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in paper_rows({name: one.config.model.to_dict() for name, one in measured.items()}, up_to):
        hours = {"train": 0.0, "compile": 0.0, "peer": 0.0, "sorted": 0.0}
        if row.new:
            hours = row_hours(measured[row.data_set], DATA_SETS[row.data_set][1], row.changes)
        hours |= {"rows": 1, "runs": SEEDS * row.new, "total": hours["train"] + hours["compile"]}
        parts.setdefault((row.table, row.data_set), []).append(hours)
    peer = all(one.peer_pair_seconds for one in measured.values())
    rows = [{"table": table, "data_set": data_set, **summed(own)} for (table, data_set), own in parts.items()]
    for row in rows if not peer else ():  # else rows without runs of their own would look measured
        row |= {"peer": None, "ratio": None, "sorted": None, "sorted_ratio": None}
    return [*({**row, "goal": ""} for row in rows), {"table": "all", "data_set": "all", **summed(rows), "goal": GOAL}]


def _notes(measured: Mapping[str, Throughput], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    total = rows[-1]["total"]
    if not total:
        return []
    by_data = {name: sum(row["total"] for row in rows[:-1] if row["data_set"] == name) / total for name in measured}
    dominant = max(by_data, key=by_data.__getitem__)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in by_data.items())
    speeds = "; ".join(
        f"{name} {1 / one.pair_seconds:,.0f} pairs/s ({one.replicas} runs at once, batch "
        f"{one.config.training.batch_size}, "
        f"{one.length} tokens a pair, {one.config.training.epochs} epochs)"
        for name, one in measured.items()
    )
    ratios = "; ".join(
        f"{words}: "
        + ", ".join(
            "{} {median:.1f} ({lower:.1f}–{upper:.1f})".format(name, **one.ratios[key])
            for name, one in measured.items()
        )
        for key, words in (("peer", "as released"), ("sorted", "sorted"))
        if all(one.ratios for one in measured.values())
    )
    sizes = ", ".join(f"{pairs:,} {name}" for name, (_, pairs) in DATA_SETS.items())
    return [
        f"{dominant} dominates: {shares}; compilation {rows[-1]['compile'] / total:.0%} of all.",
        f"Measured, the released settings: {speeds}.",
        f"{SEEDS} seeds a row on the full sets ({sizes} pairs an epoch) and dev after every epoch, a pair "
        "of which counts as a third.",
        "All epochs of the released settings: an upper bound, early stopping would end most runs sooner.",
        "Settings that are in several rows are trained once. Variants are scaled by the operations of a training "
        "step, as XLA counts them in its program.",
        "Lengths of the given data; on a CPU two are measured and the others lie on the line through them, on an "
        "accelerator all are.",
        "Compilation: every length of every variant, by the time of those measured, scaled by the number of products.",
        "Peer: its runs one after another on the same number of pairs, scaled alike, as released and with batches "
        "sorted by length (its `sort_by_len`); its evaluation counts as ours, a third of a training pair, though it "
        "sorts no batches of dev."
        + (f" Its time for a pair of an epoch, of ours in the same rounds, {ratios}." if ratios else ""),
    ]


ITEM = Item(
    title="All that RE2's Tables 1-4, 6 and 7 train, 10 seeds a row, on the full data sets: hours, estimated.",
    needs=("vectors",),
    columns=(
        Column("table", "table"),
        Column("data_set", "data"),
        Column("rows", "rows", "d"),
        Column("runs", "runs to train", "d"),
        Column("train", "training and evaluation, estimated h", ",.2f"),
        Column("compile", "compiling, estimated h", ",.2f"),
        Column("total", "ours, estimated h", ",.2f"),
        Column("peer", "peer as released, estimated h", ",.1f"),
        Column("sorted", "peer sorted, estimated h", ",.1f"),
        Column("ratio", "as released / ours", ".1f"),
        Column("sorted_ratio", "sorted / ours", ".1f"),
        Column("goal", "goal, estimated h"),
    ),
    run=run,
)
