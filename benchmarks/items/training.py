"""The training speed of one run: pairs per second on real text, compared with the public PyTorch RE2's own training."""

import contextlib
import math
import time
from typing import Any

import jax
import numpy as np

from benchmarks import stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.peer import Peer, peer_settings, write_peer_data
from benchmarks.steps import SMALL
from jaxmatch.data.encoding import EncodedData
from jaxmatch.sweep import plan
from jaxmatch.training.cohort import Cohort

# Batch size -> the minimum of our pairs per second on a CPU, as a multiple of the sorted peer's.
GOALS = {512: 2.5, 64: 2.0}


class Epochs:
    """The time of an epoch, measured by one step of each length, because all steps of a length do the same work.

    Arguments:
      config: the config to train.
      data: the prepared data of the config.
    """

    def __init__(self, config: Any, data: EncodedData):
        self._chunks = Cohort(
            model=config.model.to_dict(),
            training=config.training.to_dict(),
            execution=config.execution.to_dict(),
            data=data,
            seeds=[0],
            optimizer=[config.optimizer.to_dict()],
        ).chunks
        self._chunks.initialize()
        self._chunks.activate(np.ones(1, bool))
        self._epoch = self._chunks.epoch(0)
        self._steps = {int(bucket): index for index, (bucket, _) in enumerate(self._epoch.sequence)}
        self._counts = np.bincount(self._epoch.sequence[:, 0])
        self.pairs = data.splits["train"].pairs
        self.padding = 1 - data.splits["train"].lengths.sum() / self._chunks.batches.tokens()

    def seconds(self) -> float:
        """Measures the seconds of an epoch: one step of each length is timed, and counts once for every such step."""
        self._take(max(self._steps, key=self._tokens))  # not counted, as in steps.py: the step with the most memory
        return sum(self._counts[bucket] * self._take(bucket) for bucket in self._steps)

    def _tokens(self, bucket: int) -> int:
        """Returns the tokens of a step of one length, padding included."""
        return math.prod(self._chunks.batches.shapes[bucket])

    def _take(self, bucket: int) -> float:
        """Measures the seconds of a step of one length."""
        self._chunks.wait()
        start = time.perf_counter()
        self._chunks.step(self._epoch, self._steps[bucket])
        self._chunks.wait()
        return time.perf_counter() - start


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a row for the released SNLI setting at each batch size, and notes."""
    rows, notes = [], []
    name, small = ("re2_embedded_inference", SMALL) if settings.quick else ("re2_snli", {})
    base = settings.config(name, **small)
    data = plan.prepare(base)
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(Peer(settings.peer, settings.peer_python)) if settings.peer else None
        folder = str(write_peer_data(data, settings.scratch / "peer")) if peer else ""
        for batch_size, goal in GOALS.items():
            config = base.copy_and_resolve_references()
            config.training.batch_size = batch_size
            ours = Epochs(config, data)
            candidates = {"ours": ours.seconds}
            if peer:
                built = peer.build(peer_settings(config, data), folder)
                steps = max(1, 1024 // batch_size)
                candidates |= peer.training(steps)
            seconds = stopwatch.in_turn(candidates, settings.rounds)
            row = {"batch": batch_size, "padding": ours.padding, "verdict": stopwatch.verdict(f"≥ {goal}", None)}
            row["ours"] = stopwatch.spread([ours.pairs / one for one in seconds["ours"]])
            if peer:
                row["parameters"] = built["parameters"]
                own = [one / ours.pairs for one in seconds["ours"]]
                for key, ratio in (("peer", "ratio"), ("sorted", "sorted_ratio")):
                    row[key] = stopwatch.spread([1 / one for one in seconds[key]])
                    row[ratio] = stopwatch.ratio(seconds[key], own)
                row["verdict"] = stopwatch.verdict(f"≥ {goal}", row["sorted_ratio"]["median"] >= goal)
            if jax.default_backend() != "cpu":
                row["verdict"] = ""
            rows.append(row)
        if peer:
            notes.append(f"Peer: {peer.name}; its own batches, as released and sorted by length (its `sort_by_len`).")
    notes.append(
        f"{data.name}: {data.splits['train'].pairs:,} training pairs; every length of an epoch, weighted by its "
        "batches."
    )
    return rows, notes


ITEM = Item(
    title="Training one run, the released SNLI setting (3 blocks, hidden 150).",
    needs=("vectors",),
    columns=(
        Column("batch", "batch", "d"),
        Column("ours", "ours, pairs/s", ",.0f"),
        Column("peer", "peer as released, pairs/s", ",.0f"),
        Column("sorted", "peer sorted, pairs/s", ",.0f"),
        Column("ratio", "ours / as released", ".2f"),
        Column("sorted_ratio", "ours / sorted", ".2f"),
        Column("verdict", "goal of ours / sorted (CPU)"),
        Column("padding", "padding, ours", ".1%"),
    ),
    run=run,
)
