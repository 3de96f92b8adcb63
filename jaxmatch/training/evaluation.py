"""When runs are evaluated, the outputs of every run for every pair of a split, their scores, and wrong predictions.

The times of evaluations are counted in training pairs, so they do not depend on the batch size. `training` is the
section of a config (config/settings.py), and `pairs` is the number of training pairs in an epoch.
"""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxmatch.data.batches import evaluation_batches, evaluation_rows, most_in_evaluation, plan_buckets
from jaxmatch.data.encoding import EncodedData, EncodedSplit
from jaxmatch.data.text import PADDING
from jaxmatch.layers import core
from jaxmatch.training import hosts
from jaxmatch.training.scores import candidate_ranks, ranking_deviations, scores_of_runs
from jaxmatch.training.step import Flattening


def due(training: Mapping[str, Any], epoch: int, pairs: int, samples: np.ndarray) -> np.ndarray:
    """Returns which steps of an epoch end with an evaluation.

    Arguments:
      epoch: the index of the epoch, from 0. The last one always ends with an evaluation.
      samples: the number of pairs seen since training began, after each step, `<int64>[steps]`.

    Returns:
      `<bool>[steps]`.
    """
    every, late_every = training["evaluate_every_samples"], training["evaluate_every_samples_late"]
    before = np.concatenate([[epoch * pairs], samples[:-1]])
    # A step may begin before the border and end after it.
    border = training["late_from_samples"] if late_every else samples[-1]
    is_due = np.zeros(len(samples), bool)
    if every:
        is_due |= np.minimum(samples, border) // every > before // every
    if late_every:
        is_due |= samples // late_every > np.maximum(before, border) // late_every
    if not every or training["evaluate_each_epoch"] or epoch + 1 == training["epochs"]:
        is_due[-1] = True
    return is_due


def times(training: Mapping[str, Any], pairs: int, steps: int) -> list[int]:
    """Returns the number of pairs seen at each evaluation of a run that is not stopped early, if each of the `steps` of
    an epoch has the same number of pairs.
    """
    ends, found = -(-pairs * np.arange(1, steps + 1) // steps), []
    for epoch in range(training["epochs"]):
        samples = epoch * pairs + ends
        found += samples[due(training, epoch, pairs, samples)].tolist()
    return found


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
    """Returns the lengths that dev and test are padded to, and the number of rows in a batch of each length.

    Both splits use the same shapes, so that one program scores both.
    """
    lengths = [splits[name].lengths for name in ("dev", "test") if name in splits]
    buckets = plan_buckets(np.concatenate(lengths), maximum_buckets=min(EVALUATION_BUCKETS, maximum_buckets))
    return buckets, evaluation_rows(lengths, buckets, batch_size)


def chunk_outputs(flat: Flattening) -> Callable:
    """Returns a function that computes the outputs of every slot of a chunk for a batch, without dropout.

    It takes (most_words, parameters, tokens, sentences, vectors) and returns `<float32>[slot, batch, outputs]`.
    `parameters` is `<float32>[slot, parameters]`; `tokens` and `sentences` are as `match` of a model takes them. No
    argument is a whole split, because each size would require another program. `most_words` is as in `BatchShape`.
    """

    def outputs(most_words, parameters, tokens, sentences, vectors):
        with core.traced_for(flat.platform, most_words):
            return jax.vmap(lambda own: flat.match(own, tokens, sentences, vectors))(parameters)

    return outputs


def device_split(split: EncodedSplit) -> dict[str, Any]:
    """Returns a split as rows of tokens: {"tokens": {"ids": <int32>[pairs, longest], and further features},
    "sentences": <int8>[pairs, longest], "labels"}.
    """
    ids, sentences = split.pair_rows()
    return {"tokens": {"ids": ids, **split.features()}, "sentences": sentences, "labels": np.asarray(split.labels)}


class Evaluator:
    """An evaluator that scores the splits of a data set any number of times.

    Arguments:
      data: encoded data.
      program: the compiled `chunk_outputs`, a `chunks.Program`.
      place: a function that puts a tree of arrays on the devices, a copy on each.
      vectors: the word vectors, on the devices.
      batch_size: the most rows of a batch.
      maximum_buckets: the most lengths to pad to.

    Attributes:
      totals: "pairs", the number of pairs predicted so far, each counted once per run, and "seconds", the time that
        this took without compilation.
    """

    def __init__(
        self,
        data: EncodedData,
        program: Any,
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
        self.totals: dict[str, Any] = {"pairs": 0, "seconds": 0.0}

    @property
    def lengths(self) -> int:
        """The number of lengths that batches are padded to. Each length takes a compilation."""
        return len(self._buckets)

    @functools.cached_property
    def batches(self) -> dict[str, list[tuple[np.ndarray, int | None, Any]]]:
        """Split -> its batches: the rows of its pairs in the split, `<int32>[pairs]`, without those that only fill up
        the batch; `most_words` as in `BatchShape`; and tokens and sentences, as `match` of a model takes them, on the
        devices.
        """
        cuts: dict[str, list[tuple[np.ndarray, int, Any]]] = {}
        ids: dict[int, list[np.ndarray]] = {}
        for name, split in self.data.splits.items():
            if name == "train":
                continue
            whole, cuts[name] = device_split(split), []
            for bucket, rows, pairs in evaluation_batches(split.lengths, self._buckets, self._rows):
                cut = functools.partial(_cut, rows=rows, length=self._buckets[bucket])
                tokens, sentences = jax.tree.map(cut, (whole["tokens"], whole["sentences"]))
                cuts[name].append((rows[:pairs], bucket, (tokens, sentences)))
                ids.setdefault(bucket, []).append(tokens["ids"])
        most_words = {} if self.data.characters is None else most_in_evaluation(ids, len(self.data.vectors))
        return {
            name: [(rows, most_words.get(bucket), self._place(cut)) for rows, bucket, cut in of_split]
            for name, of_split in cuts.items()
        }

    def outputs(self, split: str, parameters: jax.Array, runs: int) -> np.ndarray:
        """Returns the outputs of every slot for every pair of a split, `<float32>[slot, pairs, outputs]`.

        `parameters` is `<float32>[slot, parameters]`; `runs` is the number of slots that do not only fill the chunk.
        """
        batches = self.batches[split]
        start, compiled = time.perf_counter(), self._program.compile_seconds
        calls = [((most_words,), (parameters, *placed, self._vectors)) for _, most_words, placed in batches]
        self._program.compile_ahead(calls)
        parts = hosts.gather([self._program(static, *arrays) for static, arrays in calls])
        outputs = np.empty((len(parts[0]), self.data.splits[split].pairs, parts[0].shape[2]), np.float32)
        for (rows, _, _), part in zip(batches, parts, strict=True):
            outputs[:, rows] = part[:, : len(rows)]
        self.totals["seconds"] += time.perf_counter() - start - (self._program.compile_seconds - compiled)
        self.totals["pairs"] += runs * outputs.shape[1]
        return outputs

    def scores(self, split: str, outputs: np.ndarray) -> list[dict[str, float]]:
        """Returns all scores of each slot's outputs, `<float32>[slot, pairs, outputs]`, and its mean loss, "loss"."""
        task, encoded = self.data.task, self.data.splits[split]
        grouping = {"groups": encoded.groups, "documents": encoded.documents, "filtered": self.data.filtered}
        found = scores_of_runs(task, encoded.labels, outputs, label_names=self.data.labels, **grouping)
        losses = mean_loss(task, outputs, encoded.labels).tolist()
        return [{**scores, "loss": loss} for scores, loss in zip(found, losses, strict=True)]

    def deviations(self, split: str, outputs: np.ndarray) -> list[dict[str, Any] | None]:
        """Returns `ranking_deviations` of each slot's outputs, `<float32>[slot, pairs, outputs]`, or None for each."""
        encoded = self.data.splits[split]
        if self.data.task != "ranking":
            return [None] * len(outputs)
        return ranking_deviations(encoded.labels, outputs, encoded.groups, encoded.documents, self.data.filtered)


def _cut(values: np.ndarray, rows: np.ndarray, length: int) -> np.ndarray:
    """Returns rows of `[pairs, longest]`, cut or padded to `[rows, length]`. Only padding is cut."""
    cut = values[rows, :length]
    return np.pad(cut, [(0, 0), (0, length - cut.shape[1])], constant_values=PADDING)


def mean_loss(task: str, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Computes the mean loss of all pairs of a split in float64 on the host: `<float32>[..., pairs, outputs]` and
    `<int32 or float32>[pairs]` -> `<float64>[...]`.
    """
    outputs = outputs.astype(np.float64)
    if task == "regression":
        return np.mean(np.square(outputs[..., 0] - labels), axis=-1)
    highest = outputs.max(axis=-1)
    with np.errstate(invalid="ignore"):  # infinite outputs of a run that is about to diverge: the loss is NaN
        total = highest + np.log(np.exp(outputs - highest[..., None]).sum(axis=-1))
        # In C order, so that a run's numbers are summed in the same order as without other runs.
        return np.mean(np.subtract(total, outputs[..., np.arange(len(labels)), labels], order="C"), axis=-1)


MOST_PAIRS, MOST_CHARACTERS = 20, 300


def mistakes(data: EncodedData, outputs: np.ndarray, split: str = "dev") -> dict[str, Any] | None:
    """Returns the worst predictions of a model, as plain values for JSON.

    Texts are the tokens that the model reads, cut to 300 characters.

    Arguments:
      data: the data set.
      outputs: the outputs for the split, `<float32>[pairs, outputs]`.
      split: the name of the split.

    Returns:
      "task", "split", "pairs" and "worst", at most 20 rows with "text_a" and "text_b", the worst first:

      - classification: the wrong predictions with the highest probability: "label", "answer" (the predicted label) and
        "probability"; next to "worst" also "labels" and "confusion", the number of pairs of each label (row) by their
        predicted label (column);
      - regression: the predictions with the largest errors: "label" and "answer" (the predicted number);
      - ranking: the questions whose best right candidate (text_b) ranks lowest: "rank", the rank of that
        candidate, "candidates", their number, and "preferred", the text that is ranked first.

      None if an output is not finite.
    """
    encoded, labels = data.splits[split], data.splits[split].labels
    outputs = np.asarray(outputs, np.float64)
    if not np.isfinite(outputs).all():
        return None
    more: dict[str, Any] = {}

    def number(value: np.ndarray) -> float:
        return round(float(value), 4)

    if data.task == "regression":
        answers = outputs[:, 0]
        worst = np.argsort(-np.abs(answers - labels), kind="stable")[:MOST_PAIRS].tolist()
        rows = {row: {"label": number(labels[row]), "answer": number(answers[row])} for row in worst}
    elif data.task == "ranking":
        rows = _lowest_ranks(data, encoded, outputs[:, 1] - outputs[:, 0])
    else:
        answers, names = outputs.argmax(axis=1), data.labels
        exponents = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        probability = exponents.max(axis=1) / exponents.sum(axis=1)
        wrong = np.flatnonzero(answers != labels)
        worst = wrong[np.argsort(-probability[wrong], kind="stable")][:MOST_PAIRS].tolist()
        rows = {
            row: {"label": names[labels[row]], "answer": names[answers[row]], "probability": number(probability[row])}
            for row in worst
        }
        confusion = np.zeros((len(data.labels),) * 2, np.int64)
        np.add.at(confusion, (labels, answers), 1)
        more = {"labels": list(data.labels), "confusion": confusion.tolist()}
    listed = [
        {"text_a": _text(data, encoded, "a", row), "text_b": _text(data, encoded, "b", row), **about}
        for row, about in rows.items()
    ]
    return {"task": data.task, "split": split, "pairs": encoded.pairs, **more, "worst": listed}


def _text(data: EncodedData, split: EncodedSplit, side: str, row: int) -> str:
    tokens, offsets = getattr(split, f"tokens_{side}"), getattr(split, f"offsets_{side}")
    text = " ".join(data.vocabulary.words[token] for token in tokens[offsets[row] : offsets[row + 1]])
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _lowest_ranks(data: EncodedData, split: EncodedSplit, scores: np.ndarray) -> dict[int, dict[str, Any]]:
    """Returns the row of the best right candidate -> what `mistakes` tells of its question, the worst first."""
    right, groups = split.labels == 1, split.groups
    ranks = candidate_ranks(split.labels, scores, groups, split.documents)
    candidates, hits = np.bincount(groups), np.bincount(groups, weights=right)
    # The best right candidate of each group is the first in ascending order of ranks.
    rising = np.lexsort((ranks, groups))
    rising = rising[right[rising]]
    best = rising[np.unique(groups[rising], return_index=True)[1]]
    counted = best[(hits[groups[best]] < candidates[groups[best]]) | (not data.filtered)]
    worst = sorted((row for row in counted.tolist() if ranks[row] > 1), key=lambda row: -ranks[row])[:MOST_PAIRS]
    first = dict(zip(groups[ranks == 1].tolist(), np.flatnonzero(ranks == 1).tolist(), strict=True))
    return {
        row: {
            "rank": int(ranks[row]),
            "candidates": int(candidates[groups[row]]),
            "preferred": _text(data, split, "b", first[groups[row]]),
        }
        for row in worst
    }
