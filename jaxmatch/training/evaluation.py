"""Outputs of every replica for every pair of a split."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.data.batches import evaluation_batches
from jaxmatch.data.buckets import plan_buckets
from jaxmatch.data.encoding import EncodedSplit
from jaxmatch.training.losses import LOSSES
from jaxmatch.training.programs import Program
from jaxmatch.training.step import take_batch


def cohort_outputs(module: nn.Module) -> Callable:
    """Evaluation of a batch by every replica; dropout is off.

    Returns:
      A function of (length_a, length_b, parameters, rows, split, vectors) that gives `<float32>[replica, batch, outputs]`;
      `parameters` has a leading replica axis, `rows` is `<int32>[batch]`.
    """

    def outputs(length_a, length_b, parameters, rows, split, vectors):
        a = take_batch(split["a"], rows, length_a)
        b = take_batch(split["b"], rows, length_b)
        return jax.vmap(lambda one: module.apply({"params": one}, a, b, vectors))(parameters)

    return outputs


def device_split(split: EncodedSplit) -> dict[str, Any]:
    """A split as padded arrays: {"a": {"ids"}, "b": {"ids"}, "labels"}, ids `<int32>[pairs, longest]`, 0 = padding."""
    return {
        "a": {"ids": split.padded("a", None)},
        "b": {"ids": split.padded("b", None)},
        "labels": np.asarray(split.labels),
    }


class Evaluator:
    """Scores the same split again and again.

    Arguments:
      split: the encoded split.
      program: the compiled `cohort_outputs`.
      place: puts a tree of arrays on the devices, a copy on each.
      vectors: the embedding table, on the devices.
      batch_size: pairs a step.
      maximum_buckets: how many shapes to compile for.
    """

    def __init__(
        self,
        split: EncodedSplit,
        program: Program,
        place: Callable[[Any], Any],
        vectors: jax.Array,
        *,
        batch_size: int,
        maximum_buckets: int,
    ):
        self._pairs, self._program, self._vectors = split.pairs, program, vectors
        self._buckets = plan_buckets(split.lengths_a, split.lengths_b, maximum_buckets=maximum_buckets)
        batches = evaluation_batches(
            split.lengths_a, split.lengths_b, self._buckets, min(batch_size, max(1, split.pairs))
        )
        self._batches = [(batch.bucket, batch.rows[batch.weights > 0], place(batch.rows)) for batch in batches]
        self._split = place(device_split(split))

    def outputs(self, parameters: Any) -> np.ndarray:
        """`<float32>[replica, pairs, outputs]` for stacked parameters, in the order of the split."""
        parts = []
        for bucket, _, rows in self._batches:
            shape = self._buckets[bucket]
            static = (shape.length_a, shape.length_b)
            parts.append(self._program(static, parameters, rows, self._split, self._vectors))
        parts = [np.asarray(part, np.float32) for part in parts]
        result = np.empty((parts[0].shape[0], self._pairs, parts[0].shape[2]), np.float32)
        for (_, kept, _), part in zip(self._batches, parts, strict=True):
            result[:, kept] = part[:, : len(kept)]
        return result


def mean_loss(task: str, outputs: np.ndarray, labels: np.ndarray) -> float:
    """The mean loss of all pairs of a split, the last batch too.

    Arguments:
      task: of the data set.
      outputs: `<float32>[pairs, outputs]` of one replica.
      labels: `<int32>[pairs]` or `<float32>[pairs]`.
    """
    return float(jnp.mean(LOSSES[task](jnp.asarray(outputs), jnp.asarray(labels))))


