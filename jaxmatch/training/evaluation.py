"""Outputs of every run for every pair of a split, and their scores."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmatch.data.batches import evaluation_batches, evaluation_rows
from jaxmatch.data.buckets import plan_buckets
from jaxmatch.data.distinct_words import most_in_evaluation
from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.data.vocabulary import PADDING
from jaxmatch.layers import core
from jaxmatch.training import hosts
from jaxmatch.training.programs import Program
from jaxmatch.training.ranking import ranking_deviations
from jaxmatch.training.scores import replica_scores
from jaxmatch.training.step import Flattening

# The most lengths that dev and test are padded to: evaluation is little work, and every length costs a compilation.
EVALUATION_BUCKETS = 4
# Pairs predicted at once: an accelerator needs many, a CPU few, so that arrays stay in its cache (benchmarks/NOTES.md).
PAIRS_AT_ONCE, PAIRS_AT_ONCE_ON_A_CPU = 512, 32


def evaluation_batch_size(configured: int, platform: str) -> int:
    """Returns the most rows of a batch: `configured`, or if that is 0, the default of the platform."""
    return configured or (PAIRS_AT_ONCE_ON_A_CPU if platform == "cpu" else PAIRS_AT_ONCE)


def evaluation_shapes(
    splits: Mapping[str, EncodedSplit], *, batch_size: int, maximum_buckets: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the shapes that dev and test are padded to. Both use the same shapes, so that one program scores both.

    Arguments:
      splits: split name -> split.
      batch_size: the most rows in a batch.
      maximum_buckets: the most lengths that training is padded to.

    Returns:
      The lengths, and the number of rows in a batch of each length.
    """
    lengths = [splits[name].lengths for name in ("dev", "test") if name in splits]
    buckets = plan_buckets(np.concatenate(lengths), maximum_buckets=min(EVALUATION_BUCKETS, maximum_buckets))
    return buckets, evaluation_rows(lengths, buckets, batch_size)


def chunk_outputs(flat: Flattening) -> Callable:
    """Returns a function that computes the outputs of every slot of a chunk for a batch, without dropout.

    Returns:
      A function of (most_words, parameters, tokens, sentences, vectors) that returns `<float32>[slot, batch, outputs]`.
      `parameters` is `<float32>[slot, parameters]`; `tokens` and `sentences` are as `match` of a model takes them. No
      argument is a whole split, because each size would require another program. `most_words` is as in `BatchShape`.
    """

    def outputs(most_words, parameters, tokens, sentences, vectors):
        with core.traced_for(flat.platform, most_words):
            return jax.vmap(lambda own: flat.match(own, tokens, sentences, vectors))(parameters)

    return outputs


def device_split(split: EncodedSplit) -> dict[str, Any]:
    """Returns a split as rows of tokens: {"tokens": {"ids", and further features}, "sentences", "labels"}; see
    `step.take_batch`.
    """
    ids, sentences = split.pair_rows()
    return {"tokens": {"ids": ids, **split.features()}, "sentences": sentences, "labels": np.asarray(split.labels)}


class PlacedBatch(NamedTuple):
    """A batch on the devices.

    Attributes:
      rows: the rows of its pairs in the split, `<int32>[pairs]`, without rows that only fill up the batch.
      most_words: as in `BatchShape`.
      tokens, sentences: the inputs as `match` of a model takes them.
    """

    rows: np.ndarray
    most_words: int | None
    tokens: Mapping[str, jax.Array]
    sentences: jax.Array


class Evaluator:
    """An evaluator that scores the splits of a data set any number of times.

    Arguments:
      data: encoded data.
      program: the compiled `cohort_outputs`.
      place: a function that puts a tree of arrays on the devices, a copy on each.
      vectors: the embedding table, on the devices.
      batch_size: the most rows of a batch.
      maximum_buckets: the most lengths to pad to.

    Attributes:
      data: the encoded data.
      totals: "pairs", the number of pairs predicted so far, each counted once per run, and "seconds", the time that
        this took without compilation.
    """

    def __init__(
        self,
        data: EncodedData,
        program: Program,
        place: Callable[[Any], Any],
        vectors: jax.Array,
        *,
        batch_size: int,
        maximum_buckets: int,
    ):
        self.data, self._program, self._place, self._vectors = data, program, place, vectors
        self._buckets, self._rows = evaluation_shapes(
            data.splits, batch_size=batch_size, maximum_buckets=maximum_buckets
        )
        self._placed: dict[str, list[PlacedBatch]] = {}
        self._most_words: dict[int, int | None] | None = None
        self.totals: dict[str, Any] = {"pairs": 0, "seconds": 0.0}

    @property
    def lengths(self) -> int:
        """The number of lengths that batches are padded to. Each length takes a compilation."""
        return len(self._buckets)

    def batches(self, split: str) -> list[PlacedBatch]:
        """Returns the batches of a split on the devices."""
        if split not in self._placed:
            if self._most_words is None:
                self._most_words = self._most_words_of_batches()
            whole = device_split(self.data.splits[split])
            self._placed[split] = [
                PlacedBatch(rows, self._most_words.get(bucket), *self._place(cut))
                for bucket, rows, cut in self._cut(split, (whole["tokens"], whole["sentences"]))
            ]
        return self._placed[split]

    def _cut(self, split: str, arrays: Any) -> Iterator[tuple[int, np.ndarray, Any]]:
        """Yields for each batch of dev or test: its bucket, the rows of its pairs, and `arrays`, `[pairs, longest]`,
        cut to the batch, `[batch, length]`.
        """
        for batch in evaluation_batches(self.data.splits[split].lengths, self._buckets, self._rows):
            length = self._buckets[batch.bucket]
            cut = jax.tree.map(lambda values: _of_length(values[batch.rows], length), arrays)
            yield batch.bucket, batch.rows[batch.weights > 0], cut

    def _most_words_of_batches(self) -> dict[int, int | None]:
        """Returns bucket -> `most_words` of its program, common to dev and test."""
        if self.data.characters is None:
            return {}
        batches: dict[int, list[np.ndarray]] = {}
        for split in ("dev", "test"):
            if split in self.data.splits:
                for bucket, _, ids in self._cut(split, self.data.splits[split].pair_rows()[0]):
                    batches.setdefault(bucket, []).append(ids)
        return most_in_evaluation(batches, len(self.data.vectors))

    def outputs(self, split: str, parameters: jax.Array, runs: int) -> np.ndarray:
        """Returns the outputs of every slot for every pair of a split.

        Arguments:
          split: the name of the split.
          parameters: `<float32>[slot, parameters]`.
          runs: the number of slots that are runs; the others only fill the chunk.

        Returns:
          `<float32>[slot, pairs, outputs]`, in the order of the split.
        """
        batches = self.batches(split)
        start, compiled = time.perf_counter(), self._program.compile_seconds
        calls = [((batch.most_words,), (parameters, batch.tokens, batch.sentences, self._vectors)) for batch in batches]
        self._program.compile_in_parallel(calls)
        parts = hosts.gather([self._program(static, *arrays) for static, arrays in calls])
        outputs = np.empty((len(parts[0]), self.data.splits[split].pairs, parts[0].shape[2]), np.float32)
        for batch, part in zip(batches, parts, strict=True):
            outputs[:, batch.rows] = part[:, : len(batch.rows)]
        self.totals["seconds"] += time.perf_counter() - start - (self._program.compile_seconds - compiled)
        self.totals["pairs"] += runs * outputs.shape[1]
        return outputs

    def scores(self, split: str, outputs: np.ndarray) -> list[dict[str, float]]:
        """Returns all scores of each slot's outputs, `<float32>[slot, pairs, outputs]`, and its mean loss under
        "loss".
        """
        data, encoded = self.data, self.data.splits[split]
        scores = replica_scores(
            data.task,
            encoded.labels,
            outputs,
            label_names=data.labels,
            groups=encoded.groups,
            documents=encoded.documents,
            filtered=data.filtered,
        )
        losses = mean_loss(data.task, outputs, encoded.labels).tolist()
        return [{**of_replica, "loss": loss} for of_replica, loss in zip(scores, losses, strict=True)]

    def deviations(self, split: str, outputs: np.ndarray) -> list[dict[str, Any] | None]:
        """Returns `ranking_deviations` of each slot's outputs, `<float32>[slot, pairs, outputs]`.

        For tasks other than ranking, each entry is None.
        """
        data, encoded = self.data, self.data.splits[split]
        if data.task != "ranking":
            return [None] * len(outputs)
        return ranking_deviations(encoded.labels, outputs, encoded.groups, encoded.documents, data.filtered)


def _of_length(values: np.ndarray, length: int) -> np.ndarray:
    """Returns rows `[batch, longest]`, cut or padded to `[batch, length]`. Only padding is cut."""
    cut = values[:, :length]
    return np.pad(cut, [(0, 0), (0, length - cut.shape[1])], constant_values=PADDING)


def mean_loss(task: str, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Computes the mean loss (losses.py) of all pairs of a split in float64 on the host.

    Arguments:
      task: the task of the data set.
      outputs: `<float32>[..., pairs, outputs]`.
      labels: `<int32>[pairs]` or `<float32>[pairs]`.

    Returns:
      `<float64>[...]`.
    """
    outputs = outputs.astype(np.float64)
    if task == "regression":
        return np.mean(np.square(outputs[..., 0] - labels), axis=-1)
    highest = outputs.max(axis=-1)
    with np.errstate(invalid="ignore"):  # infinite outputs of a run that is about to diverge: the loss is NaN
        total = highest + np.log(np.exp(outputs - highest[..., None]).sum(axis=-1))
        # In C order, so that a run's numbers are summed in the same order as without other runs.
        return np.mean(np.subtract(total, outputs[..., np.arange(len(labels)), labels], order="C"), axis=-1)
