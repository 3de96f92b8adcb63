"""Training steps of one shape, ready to be timed."""

import dataclasses
import functools
import math
import time
from typing import Any

import jax
import numpy as np

from benchmarks import ceiling
from jaxmatch import models
from jaxmatch.data.batches import BatchPlan
from jaxmatch.data.buckets import assign, plan_buckets
from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.sweep import memory
from jaxmatch.training.lockstep import Lockstep

# Steps are timed in rows at least this long, as training dispatches them: it does not wait for each.
SECONDS_OF_A_ROW = 0.1
# Changes that make a config compile in seconds, for `--quick`.
SMALL = {
    "model__blocks": 1,
    "model__encoder_layers": 1,
    "model__hidden_size": 8,
    "model__alignment": "identity",
    "model__fusion": "simple",
    "model__prediction": "simple",
    "training__batch_size": 16,
}


class Steps:
    """Training steps of some replicas at one length, on one device.

    Arguments:
      config: model, batch size and hyperparameters.
      data: its data, prepared.
      replicas: how many train together.
      length: tokens of a pair, padding included; the batches are of pairs of that length or little less.

    Attributes:
      length: of the program: `length`, or less where no pair is so long.
      pairs: in a step of all replicas.
      compile_seconds: that the training program took; 0 if it was there.
    """

    def __init__(self, config: Any, data: EncodedData, *, replicas: int, length: int):
        batch = config.training.batch_size
        self.lockstep = Lockstep(
            model=config.model.to_dict(),
            data=of_length(data, length, 2 * batch),
            batch_size=batch,
            maximum_buckets=1,
            seeds=range(replicas),
            optimizer=[config.optimizer.to_dict()] * replicas,
            devices=(jax.devices()[0],),
        )
        (self.length,) = self.lockstep.buckets
        self.pairs = replicas * batch
        self.state = self.lockstep.initial()
        self._epoch, self._taken = self.lockstep.epoch(0), 0
        before = self.lockstep.programs.train.compile_seconds
        self.taking(1)
        self.compile_seconds = self.lockstep.programs.train.compile_seconds - before

    def seconds(self) -> float:
        """Seconds of a step: the mean of several in a row, until the last has ended.

        A step before the row does not count. In training there is always one: without it, gigabytes of memory that
        other work or nothing used for some seconds cost a step on a virtual machine up to twice its time (NOTES.md).
        """
        return self.taking(max(1, math.ceil(SECONDS_OF_A_ROW / self.taking(1))))

    def taking(self, steps: int) -> float:
        """Seconds of each of the next steps, which are started one after the other."""
        jax.block_until_ready(self.state)
        start = time.perf_counter()
        for _ in range(steps):
            self.state = self.lockstep.step(self.state, self._epoch, self._taken % len(self._epoch.sequence))
            self._taken += 1
        jax.block_until_ready(self.state)
        return (time.perf_counter() - start) / steps


def of_length(data: EncodedData, length: int, pairs: int) -> EncodedData:
    """Data whose training split holds only pairs of `length` tokens, or little less where those do not suffice.

    Arguments:
      data: where they are taken from; the longest that fit, again and again if there are too few.
      length: tokens of both sentences together, at most.
      pairs: how many.
    """
    train = data.splits["train"]
    order = np.argsort(-train.lengths, kind="stable")
    fitting = order[train.lengths[order] <= length]
    if not len(fitting):  # shorter than every pair: the shortest have to do
        fitting = order[-1:]
    rows = np.resize(fitting[:pairs], pairs)
    return dataclasses.replace(data, splits={**data.splits, "train": _rows(train, rows)})


def _rows(split: EncodedSplit, rows: np.ndarray) -> EncodedSplit:
    """The given pairs of a split, in the given order."""
    chosen: dict[str, np.ndarray] = {"labels": split.labels[rows]}
    for side, offsets in (("a", split.offsets_a), ("b", split.offsets_b)):
        sizes = offsets[rows + 1] - offsets[rows]
        chosen[f"offsets_{side}"] = np.concatenate([[0], np.cumsum(sizes)])
        for name in ("tokens", "tags", "exact_match"):
            values = getattr(split, f"{name}_{side}")
            if values is not None:
                chosen[f"{name}_{side}"] = np.concatenate([values[offsets[row] : offsets[row + 1]] for row in rows])
    return EncodedSplit(**chosen)


def bucket_shares(config: Any, data: EncodedData) -> dict[int, float]:
    """Length of a bucket -> the share of the training pairs that it holds."""
    lengths = data.splits["train"].lengths
    buckets = plan_buckets(lengths, maximum_buckets=config.training.maximum_buckets)
    counts = np.bincount(assign(lengths, buckets), minlength=len(buckets))
    return {length: count / len(lengths) for length, count in zip(buckets, counts.tolist(), strict=True)}


def typical_length(config: Any, data: EncodedData) -> int:
    """Tokens of a pair in the mean over an epoch, padding to the buckets' lengths included."""
    lengths = data.splits["train"].lengths
    buckets = plan_buckets(lengths, maximum_buckets=config.training.maximum_buckets)
    plan = BatchPlan(assign(lengths, buckets), buckets, config.training.batch_size)
    return round(plan.tokens() / len(lengths))


def work(config: Any, data: EncodedData, length: int) -> ceiling.Work:
    """The matrix products of one training step of one run, forward and backward, counted in its program."""
    module = models.build(config.model.to_dict(), outputs=data.outputs)
    return _work(module, data.task, data.vectors.shape[1], config.training.batch_size, length)


@functools.lru_cache(maxsize=1024)
def _work(module: Any, task: str, dimensions: int, batch: int, length: int) -> ceiling.Work:
    return ceiling.count_program(memory.step_program(module, task, dimensions, batch, length))
