"""Outputs of every replica for every pair of a split."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxmatch.data.batches import evaluation_batches, evaluation_rows
from jaxmatch.data.buckets import largest, plan_buckets
from jaxmatch.data.encoding import EncodedSplit
from jaxmatch.data.vocabulary import PADDING
from jaxmatch.training.programs import Program
from jaxmatch.training.replicas import at_once, most_at_once, over_replicas
from jaxmatch.training.room import limit_that_fits
from jaxmatch.training.step import Flattening

# Lengths that dev and test are padded to; evaluation is a small part of the work, and every length costs a compilation.
EVALUATION_BUCKETS = 4
# Pairs answered at once: an accelerator wants many, a CPU few, whose arrays stay near it (benchmarks/NOTES.md).
PAIRS_AT_ONCE, PAIRS_AT_ONCE_ON_A_CPU = 512, 32


def evaluation_batch_size(configured: int, platform: str) -> int:
    """The most rows of a batch: as configured, or where that is 0, what suits devices of a platform."""
    return configured or (PAIRS_AT_ONCE_ON_A_CPU if platform == "cpu" else PAIRS_AT_ONCE)


def evaluation_shapes(
    splits: Mapping[str, EncodedSplit], *, batch_size: int, maximum_buckets: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What dev and test are padded to. The shapes are those of both together, so that what scores one is compiled for
    both.

    Arguments:
      splits: name -> split.
      batch_size: the most rows in a batch.
      maximum_buckets: the most lengths that training is padded to.

    Returns:
      The lengths, and the rows of a batch of each.
    """
    lengths = [splits[name].lengths for name in ("dev", "test") if name in splits]
    buckets = plan_buckets(np.concatenate(lengths), maximum_buckets=min(EVALUATION_BUCKETS, maximum_buckets))
    return buckets, evaluation_rows(lengths, buckets, batch_size)


def cohort_outputs(flat: Flattening) -> Callable:
    """Evaluation of a batch by every replica; dropout is off.

    Returns:
      A function of (side_by_side, parameters, tokens, sentences, vectors) that gives
      `<float32>[replica, batch, outputs]`; `parameters` is `<float32>[replica, parameters]`, `tokens` and `sentences`
      as `match` of a model takes them. No split is among its arguments, whose size would make it another program.
      `side_by_side` replicas are computed in a turn (replicas.py).
    """

    def outputs(side_by_side, parameters, tokens, sentences, vectors):
        def one(parameters):
            return flat.module.apply({"params": flat.to_tree(parameters)}, tokens, sentences, vectors, method="match")

        return over_replicas(one, (parameters,), side_by_side)

    return outputs


def device_split(split: EncodedSplit) -> dict[str, Any]:
    """A split as rows of tokens: {"tokens": {"ids", and further features}, "sentences", "labels"}; see
    `step.take_batch`.
    """
    ids, sentences = split.side_by_side()
    return {"tokens": {"ids": ids, **split.features()}, "sentences": sentences, "labels": np.asarray(split.labels)}


class Evaluator:
    """Scores the same split again and again.

    Arguments:
      split: the encoded split.
      program: the compiled `cohort_outputs`.
      place: puts a tree of arrays on the devices, a copy on each.
      vectors: the embedding table, on the devices.
      buckets: the lengths to pad to.
      rows: of a batch of each bucket.
    """

    def __init__(
        self,
        split: EncodedSplit,
        program: Program,
        place: Callable[[Any], Any],
        vectors: jax.Array,
        *,
        buckets: tuple[int, ...],
        rows: tuple[int, ...],
    ):
        self._pairs, self._program, self._vectors = split.pairs, program, vectors
        whole = device_split(split)
        self._batches = []
        for batch in evaluation_batches(split.lengths, buckets, rows):
            cut = jax.tree.map(
                lambda values: _of_length(values[batch.rows], buckets[batch.bucket]),
                (whole["tokens"], whole["sentences"]),
            )
            self._batches.append((batch.rows[batch.weights > 0], place(cut)))

    def at_once(self, replicas: int, limit: int | None) -> int:
        """How many of some replicas answer side by side on a device, at most; see `outputs`."""
        return max(self._at_once(replicas, limit, sentences) for _, (_, sentences) in self._batches)

    def _at_once(self, replicas: int, limit: int | None, sentences: jax.Array) -> int:
        mesh = self._program.mesh
        return at_once(replicas // mesh.size, most_at_once(len(sentences), mesh.devices.flat[0].platform), limit)

    def fit(self, parameters: jax.Array, limit: int | None, free: int) -> int | None:
        """The limit, or a lower one, under which batches of the largest shapes fit `free` bytes of a device; see
        `outputs`.
        """
        batches = {sentences.shape: (tokens, sentences) for _, (tokens, sentences) in self._batches}
        for tokens, sentences in (batches[shape] for shape in largest(batches)):
            limit = limit_that_fits(
                lambda limit: self._at_once(len(parameters), limit, sentences),
                lambda side_by_side: self._program.compiled(
                    (side_by_side,), (parameters, tokens, sentences, self._vectors)
                ),
                limit,
                free,
            )
        return limit

    def outputs(self, parameters: jax.Array, limit: int | None = None) -> np.ndarray:
        """What every replica answers.

        Arguments:
          parameters: `<float32>[replica, parameters]`.
          limit: more replicas side by side do not fit a device (`replicas.at_once`).

        Returns:
          `<float32>[replica, pairs, outputs]`, in the order of the split.
        """
        parts = []
        for _, (tokens, sentences) in self._batches:
            side_by_side = self._at_once(len(parameters), limit, sentences)
            parts.append(self._program((side_by_side,), parameters, tokens, sentences, self._vectors))
        parts = [np.asarray(part, np.float32) for part in parts]
        result = np.empty((parts[0].shape[0], self._pairs, parts[0].shape[2]), np.float32)
        for (kept, _), part in zip(self._batches, parts, strict=True):
            result[:, kept] = part[:, : len(kept)]
        return result


def _of_length(values: np.ndarray, length: int) -> np.ndarray:
    """Rows `[batch, longest]` as `[batch, length]`, cut or padded; nothing but padding is cut."""
    cut = values[:, :length]
    return np.pad(cut, [(0, 0), (0, length - cut.shape[1])], constant_values=PADDING)


def mean_loss(task: str, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mean loss (losses.py) of all pairs of a split, the last batch too; in float64 on the host.

    Arguments:
      task: of the data set.
      outputs: `<float32>[..., pairs, outputs]`.
      labels: `<int32>[pairs]` or `<float32>[pairs]`.

    Returns:
      `<float64>[...]`.
    """
    outputs = outputs.astype(np.float64)
    if task == "regression":
        return np.mean(np.square(outputs[..., 0] - labels), axis=-1)
    highest = outputs.max(axis=-1)
    total = highest + np.log(np.exp(outputs - highest[..., None]).sum(axis=-1))
    # In C's order, so that a replica's numbers are summed as they are alone.
    return np.mean(np.subtract(total, outputs[..., np.arange(len(labels)), labels], order="C"), axis=-1)
