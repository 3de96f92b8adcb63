"""Training steps of one shape, ready to be timed."""

import dataclasses
import functools
import math
import time
from typing import Any

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.data.batches import assign, plan_batches, plan_buckets
from jaxmatch.data.encoding import EncodedData, EncodedSplit
from jaxmatch.data.text import LONGEST_WORD, WordTable
from jaxmatch.training import step
from jaxmatch.training.chunks import Chunks
from jaxmatch.training.evaluation import chunk_outputs

# Steps are timed in series that last at least this long. As in training, no step waits for the one before.
MIN_SERIES_SECONDS = 0.1
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
      config: the model, the batch size and the hyperparameters.
      data: the prepared data of the config.
      replicas: the number of replicas that train together.
      length: the tokens of a pair, padding included. The batches consist of pairs of that length or slightly less.

    Attributes:
      length: the length of the program: `length`, or less if no pair is that long.
      pairs: the pairs in a step of all replicas.
      compile_seconds: the seconds to compile the training program; 0 if it was compiled before.
    """

    def __init__(self, config: Any, data: EncodedData, *, replicas: int, length: int):
        batch = config.training.batch_size
        self.chunks = Chunks(
            model=config.model.to_dict(),
            data=of_length(data, length, 2 * batch),
            training=config.training.to_dict() | {"maximum_buckets": 1, "mix_lengths": False},
            seeds=range(replicas),
            optimizer=[config.optimizer.to_dict()] * replicas,
            devices=(jax.devices()[0],),
        )
        (self.length,) = self.chunks.batches.buckets
        self.pairs = replicas * batch
        self.chunks.initialize()
        self.chunks.activate(np.ones(replicas, bool))
        self._epoch, self._steps_done = self.chunks.epoch(0), 0
        before = self.chunks.programs.train.compile_seconds
        self.mean_step_seconds(1)
        self.compile_seconds = self.chunks.programs.train.compile_seconds - before

    def seconds(self) -> float:
        """Measures the seconds of a step: the mean of several in a row, until the last one has ended.

        A step before the series does not count. In training there always is such a step. Without it, a step on a
        virtual machine takes up to twice its time if gigabytes of memory were unused, or used by other work, for some
        seconds (NOTES.md).
        """
        return self.mean_step_seconds(max(1, math.ceil(MIN_SERIES_SECONDS / self.mean_step_seconds(1))))

    def mean_step_seconds(self, steps: int) -> float:
        """Measures the seconds of a step, averaged over the next `steps` steps, which start one after the other."""
        self.chunks.wait()
        start = time.perf_counter()
        for _ in range(steps):
            self.chunks.step(self._epoch, self._steps_done % len(self._epoch.sequence))
            self._steps_done += 1
        self.chunks.wait()
        return (time.perf_counter() - start) / steps


def of_length(data: EncodedData, length: int, pairs: int) -> EncodedData:
    """Returns data whose training split holds only pairs of `length` tokens, or slightly less if there are too few of
    these.

    Arguments:
      data: the data that the pairs are taken from. The longest pairs that fit are taken, repeatedly if there are too
        few.
      length: the tokens of both sentences together, at most.
      pairs: the number of pairs.
    """
    train = data.splits["train"]
    order = np.argsort(-train.lengths, kind="stable")
    fitting = order[train.lengths[order] <= length]
    if not len(fitting):  # every pair is longer: the shortest one is taken
        fitting = order[-1:]
    rows = np.resize(fitting[:pairs], pairs)
    return dataclasses.replace(data, splits={**data.splits, "train": _rows(train, rows)})


def _rows(split: EncodedSplit, rows: np.ndarray) -> EncodedSplit:
    """Returns the given pairs of a split, in the given order."""
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
    """Returns length of a bucket -> the share of the training pairs that it holds."""
    lengths = data.splits["train"].lengths
    buckets = plan_buckets(lengths, maximum_buckets=config.training.maximum_buckets)
    counts = np.bincount(assign(lengths, buckets), minlength=len(buckets))
    return {length: count / len(lengths) for length, count in zip(buckets, counts.tolist(), strict=True)}


def typical_length(config: Any, data: EncodedData) -> int:
    """Returns the tokens of a pair, padding to the buckets' lengths included, averaged over an epoch."""
    lengths = data.splits["train"].lengths
    training = config.training
    plan = plan_batches(lengths, batch_size=training.batch_size, maximum_buckets=training.maximum_buckets)
    return round(plan.tokens() / len(lengths))


def operations_of_a_step(config: Any, data: EncodedData, length: int) -> float:
    """Returns the floating-point operations of a training step of one run, as XLA counts them before it compiles."""
    return lowered_for(config, data, length).cost_analysis()["flops"]


def lowered_for(config: Any, data: EncodedData, length: int) -> jax.stages.Lowered:
    """Returns the `lowered` training step of one run on some data."""
    shape = {"task": data.task, "outputs": data.outputs, "dimensions": data.vectors.shape[1]}
    return lowered(config, **shape, length=length)


def lowered(
    config: Any,
    *,
    task: str,
    outputs: int,
    dimensions: int,
    length: int,
    runs: int = 1,
    program: str = "train",
    sizes: tuple[int, int, int] = (4096, 96, 10_000),
    most_words: int | None = None,
    platform: str = "cpu",
    sharding: Any = None,
) -> jax.stages.Lowered:
    """Lowers the program of a chunk for arrays that need not exist.

    Arguments:
      config: the model, the batch size and the names of the hyperparameters.
      task: the task of the data.
      outputs: the number of outputs of the model.
      dimensions: the dimensions of the word vectors.
      length: the tokens of a row, padding included.
      runs: the number of slots of the chunk.
      program: "train" or "evaluate".
      sizes: the numbers of training pairs, of tokens of the longest pair, and of words.
      most_words: as in `BatchShape`; None for a model without characters.
      platform: the platform that the program is for, as `step.Flattening` names it.
      sharding: the sharding of all arrays; None means the device of this machine.
    """
    module, batch = models.build(config.model.to_dict(), outputs=outputs), config.training.batch_size
    pairs, longest, words = sizes

    def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    def of_slots(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: array(leaf.dtype, runs, *leaf.shape), tree)

    def tokens(rows: int, columns: int) -> dict[str, Any]:
        kinds = {"ids": np.int32} | {name: np.uint8 if name == "tags" else np.int8 for name in module.token_features}
        return {name: array(kind, rows, columns) for name, kind in kinds.items()}

    vectors = array(np.float32, words, dimensions)
    flat = step.flattening(module, dimensions, step.words_trained(module, words), platform)
    seed, hyperparameters = array(np.uint32), step.stack([config.optimizer.to_dict()])
    hyperparameters = jax.tree.map(lambda leaf: array(leaf.dtype), hyperparameters)
    state = of_slots(jax.eval_shape(functools.partial(step.initial_state, flat), seed, hyperparameters, vectors))
    if module.takes_characters:
        vectors = WordTable(vectors, array(np.uint16, words, LONGEST_WORD))
    if program == "evaluate":
        function = functools.partial(chunk_outputs(flat), most_words)
        return jax.jit(function).lower(state.parameters, tokens(batch, length), array(np.int8, batch, length), vectors)
    function = functools.partial(step.chunk_step(flat, task), step.BatchShape(length, most_words))
    labels = array(np.float32 if task == "regression" else np.int32, pairs)
    split = {"tokens": tokens(pairs, longest), "sentences": array(np.int8, pairs, longest), "labels": labels}
    others = of_slots((seed, hyperparameters, array(bool)))
    batches = of_slots((array(np.int32, pairs // batch, batch), array(np.float32, pairs // batch, batch)))
    return jax.jit(function, donate_argnums=0).lower(state, others, batches, array(np.int32, 2), split, vectors)
