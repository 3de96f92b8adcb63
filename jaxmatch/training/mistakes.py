"""The wrong predictions of a trained model on dev: counts, and a bounded number of pairs with their texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.training.ranking import candidate_ranks

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
    encoded = data.splits[split]
    outputs = np.asarray(outputs, np.float64)
    if not np.isfinite(outputs).all():
        return None
    found: dict[str, Any] = {"task": data.task, "split": split, "pairs": encoded.pairs}
    text = _Texts(encoded, data.vocabulary.words)
    if data.task == "regression":
        return found | {"worst": _largest_errors(encoded, outputs[:, 0], text)}
    if data.task == "ranking":
        return found | {"worst": _lowest_ranks(encoded, outputs[:, 1] - outputs[:, 0], data.filtered, text)}
    answers = outputs.argmax(axis=1)
    confusion = np.zeros((len(data.labels),) * 2, np.int64)
    np.add.at(confusion, (encoded.labels, answers), 1)
    found |= {"labels": list(data.labels), "confusion": confusion.tolist()}
    return found | {"worst": _most_confident(encoded, outputs, answers, data.labels, text)}


class _Texts:
    """The texts of the pairs of a split, by row."""

    def __init__(self, split: EncodedSplit, words: Sequence[str]):
        self._split, self._words = split, words

    def pair(self, row: int) -> dict[str, str]:
        return {"text_a": self.first(row), "text_b": self.second(row)}

    def first(self, row: int) -> str:
        return self._text(self._split.tokens_a, self._split.offsets_a, row)

    def second(self, row: int) -> str:
        return self._text(self._split.tokens_b, self._split.offsets_b, row)

    def _text(self, tokens: np.ndarray, offsets: np.ndarray, row: int) -> str:
        text = " ".join(self._words[token] for token in tokens[offsets[row] : offsets[row + 1]])
        return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _most_confident(
    split: EncodedSplit, outputs: np.ndarray, answers: np.ndarray, labels: Sequence[str], text: _Texts
) -> list[dict[str, Any]]:
    exponents = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    probability = exponents.max(axis=1) / exponents.sum(axis=1)
    wrong = np.flatnonzero(answers != split.labels)
    worst = wrong[np.argsort(-probability[wrong], kind="stable")][:MOST_PAIRS]
    return [
        {
            **text.pair(row),
            "label": labels[split.labels[row]],
            "answer": labels[answers[row]],
            "probability": round(float(probability[row]), 4),
        }
        for row in worst
    ]


def _largest_errors(split: EncodedSplit, answers: np.ndarray, text: _Texts) -> list[dict[str, Any]]:
    worst = np.argsort(-np.abs(answers - split.labels), kind="stable")[:MOST_PAIRS]
    return [
        {**text.pair(row), "label": round(float(split.labels[row]), 4), "answer": round(float(answers[row]), 4)}
        for row in worst
    ]


def _lowest_ranks(split: EncodedSplit, scores: np.ndarray, filtered: bool, text: _Texts) -> list[dict[str, Any]]:
    right, groups = split.labels == 1, split.groups
    ranks = candidate_ranks(split.labels, scores, groups, split.documents)
    candidates, hits = np.bincount(groups), np.bincount(groups, weights=right)
    found = []
    # The best right candidate of each group is the first in ascending order of ranks.
    rising = np.lexsort((ranks, groups))
    for row in rising[right[rising]]:
        if not found or groups[found[-1]] != groups[row]:
            found.append(row)
    counted = [row for row in found if hits[groups[row]] < candidates[groups[row]] or not filtered]
    worst = sorted((row for row in counted if ranks[row] > 1), key=lambda row: -ranks[row])[:MOST_PAIRS]
    first = dict(zip(groups[ranks == 1].tolist(), np.flatnonzero(ranks == 1), strict=True))
    return [
        {
            **text.pair(row),
            "rank": int(ranks[row]),
            "candidates": int(candidates[groups[row]]),
            "preferred": text.second(first[groups[row]]),
        }
        for row in worst
    ]
