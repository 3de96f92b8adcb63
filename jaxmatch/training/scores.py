"""Scores of a model's outputs against the labels: plain numpy, float64 inside, no loop over pairs or groups.

No input that a training can produce raises an exception or a warning. What is undefined is NaN, so that it can be
neither chosen nor averaged by mistake:

- any output that is not finite makes every score NaN (the run has diverged);
- no pairs at all, `auc` of labels that are all alike, `pearson` and `spearman` of labels that are all alike,
  `map`, `mrr` and `recall_at_k` without a group that holds both right and wrong candidates: NaN.

A model that gives every pair the same answer, on the other hand, has a score, the one of a model that knows nothing:
`auc` 0.5, `pearson` and `spearman` 0, `f1` 0 where nothing was found.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

RECALL_AT = (1, 2, 5)  # ranks
_RANKING = ("map", "mrr", *(f"recall_at_{rank}" for rank in RECALL_AT))
HIGHER_IS_BETTER: dict[str, bool] = {
    "accuracy": True,
    "f1": True,
    "macro_f1": True,
    "auc": True,
    **dict.fromkeys(_RANKING, True),
    "pearson": True,
    "spearman": True,
    "mse": False,
    "loss": False,
}


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Share of equal entries.

    Arguments:
      labels: <int32>[pairs].
      predictions: <int32>[pairs].
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    return float(np.mean(labels == predictions)) if labels.size else float("nan")


def f1(labels: ArrayLike, predictions: ArrayLike, positive: int = 1) -> float:
    """F1 of one class, 2 hits / (2 hits + misses + false alarms); 0 if the class is neither there nor predicted.

    Arguments:
      labels: <int32>[pairs].
      predictions: <int32>[pairs].
      positive: the class.
    """
    right, guessed = np.asarray(labels) == positive, np.asarray(predictions) == positive
    if not right.size:
        return float("nan")
    mentioned = np.count_nonzero(right) + np.count_nonzero(guessed)
    return float(2 * np.count_nonzero(right & guessed) / mentioned) if mentioned else 0.0


def macro_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Unweighted mean of `f1` over the classes that are among the labels or the predictions.

    Arguments:
      labels: <int32>[pairs].
      predictions: <int32>[pairs].
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    classes = np.union1d(labels, predictions)
    return float(np.mean([f1(labels, predictions, c) for c in classes])) if classes.size else float("nan")


def average_ranks(values: ArrayLike) -> np.ndarray:
    """Ranks from 1 upward, equal values sharing the mean of their ranks.

    Arguments:
      values: <float64>[pairs].

    Returns:
      <float64>[pairs].
    """
    _, index, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[index]


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve: how often a positive pair scores above a negative one, ties counting half.

    Computed from the rank sum (Mann and Whitney 1947).

    Arguments:
      labels: <int32>[pairs]; 1 is positive, all else negative.
      scores: <float64>[pairs].

    Returns:
      NaN if the labels are all positive or all negative.
    """
    positive, scores = np.asarray(labels) == 1, np.asarray(scores, np.float64)
    positives = int(np.count_nonzero(positive))
    negatives = positive.size - positives
    if not positives or not negatives or np.isnan(scores).any():
        return float("nan")
    rank_sum = average_ranks(scores)[positive].sum()
    return float((rank_sum - positives * (positives + 1) / 2.0) / (positives * negatives))


def _integers(values: ArrayLike) -> np.ndarray:
    """Numbers <int64>[n] that are ordered as the values are."""
    values = np.asarray(values)
    return values.astype(np.int64) if values.dtype.kind in "iub" else np.unique(values, return_inverse=True)[1]


def _rank_order(
    relevant: np.ndarray, scores: np.ndarray, groups: np.ndarray, documents: ArrayLike | None
) -> np.ndarray:
    """<int64>[pairs]: the pairs group by group, each group as trec_eval ranks it."""
    with np.errstate(over="ignore"):
        # trec_eval keeps scores in single precision, so that what is equal there must be a tie here.
        falling = -scores.astype(np.float32)
    order = np.lexsort((relevant, falling, groups))
    if documents is None:
        return order
    # Text is slow to sort and ties are rare: only the names of tied pairs are looked at.
    same = (groups[order][1:] == groups[order][:-1]) & (falling[order][1:] == falling[order][:-1])
    tied = np.zeros(scores.size, bool)
    tied[order[1:][same]] = tied[order[:-1][same]] = True
    if not same.any():
        return order
    names = np.zeros(scores.size, np.int64)
    # Code points order text as trec_eval's comparison of UTF-8 bytes does.
    names[tied] = -np.unique(np.asarray(documents)[tied], return_inverse=True)[1]
    return np.lexsort((relevant, names, falling, groups))


def ranking_scores(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None, filtered: bool = True
) -> dict[str, float]:
    """Mean average precision, mean reciprocal rank and recall at k by trec_eval's rules, over the filtered groups.

    Recall at k is the share of a group's right candidates that are ranked among its first k. Where each group holds one
    right candidate of ten, it is R10@k of Lowe et al. (2015).

    Filtered: only groups that hold both right and wrong candidates count, as in RE2's and others' results on WikiQA.
    Candidates are ranked by score (rounded to float32), falling; equal scores by document name, falling. Without
    document names, or where even those are equal, wrong candidates come first, so that a model which cannot tell
    candidates apart gains nothing from the order they were written in.

    Arguments:
      labels: <int32>[pairs]; 1 is right, all else wrong.
      scores: <float64>[pairs].
      groups: <int32>[pairs] or text: what a candidate competes in. Groups need not lie together.
      documents: <str>[pairs], the candidates' names, or None.
      filtered: False: all groups with a right candidate count; one without a wrong candidate cannot be ranked badly.

    Returns:
      "map", "mrr", "recall_at_1", "recall_at_2", "recall_at_5"; NaN if no group counts or a score is NaN.
    """
    relevant, scores, groups = np.asarray(labels) == 1, np.asarray(scores, np.float64), _integers(groups)
    undefined = dict.fromkeys(_RANKING, float("nan"))
    if not relevant.size or np.isnan(scores).any():
        return undefined
    order = _rank_order(relevant, scores, groups, documents)
    relevant, groups = relevant[order], groups[order]
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    sizes = np.diff(np.append(starts, relevant.size))
    right = np.add.reduceat(relevant.astype(np.int64), starts)
    counted = (right > 0) & (right < sizes) if filtered else right > 0
    if not counted.any():
        return undefined
    rank = np.arange(1, relevant.size + 1) - np.repeat(starts, sizes)
    found = np.cumsum(relevant) - np.repeat(np.cumsum(right) - right, sizes)
    precision = np.add.reduceat(np.where(relevant, found / rank, 0.0), starts)
    first = np.minimum.reduceat(np.where(relevant, rank, relevant.size + 1), starts)
    found_among = {k: np.add.reduceat((relevant & (rank <= k)).astype(np.int64), starts) for k in RECALL_AT}
    return {
        "map": float(np.mean(precision[counted] / right[counted])),
        "mrr": float(np.mean(1.0 / first[counted])),
        **{f"recall_at_{k}": float(np.mean(found_among[k][counted] / right[counted])) for k in RECALL_AT},
    }


def mean_average_precision(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None
) -> float:
    """trec_eval's `map` over the filtered groups; arguments and rules as in `ranking_scores`."""
    return ranking_scores(labels, scores, groups, documents)["map"]


def mean_reciprocal_rank(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None
) -> float:
    """trec_eval's `recip_rank` over the filtered groups; arguments and rules as in `ranking_scores`."""
    return ranking_scores(labels, scores, groups, documents)["mrr"]


def pearson(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson's correlation; 0 if the predictions are all alike, NaN if the labels are (or there are fewer than two).

    Arguments:
      labels: <float64>[pairs].
      predictions: <float64>[pairs].
    """
    labels, predictions = np.asarray(labels, np.float64), np.asarray(predictions, np.float64)
    # Compared as they are: after the mean is subtracted, rounding makes equal numbers look different.
    if labels.size < 2 or not np.isfinite(predictions).all() or np.ptp(labels) == 0:
        return float("nan")
    if np.ptp(predictions) == 0:
        return 0.0
    labels, predictions = labels - labels.mean(), predictions - predictions.mean()
    # Scaled to 1 first, so that squares of tiny or huge deviations neither vanish nor overflow.
    labels, predictions = labels / np.abs(labels).max(), predictions / np.abs(predictions).max()
    return float(np.clip(labels @ predictions / np.sqrt((labels @ labels) * (predictions @ predictions)), -1.0, 1.0))


def spearman(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Spearman's rank correlation: `pearson` of the average ranks, undefined where that is.

    Arguments:
      labels: <float64>[pairs].
      predictions: <float64>[pairs].
    """
    if np.isnan(np.asarray(predictions, np.float64)).any():
        return float("nan")
    return pearson(average_ranks(labels), average_ranks(predictions))


def mean_squared_error(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean of the squared differences, in the labels' unit squared.

    Arguments:
      labels: <float64>[pairs].
      predictions: <float64>[pairs].
    """
    labels, predictions = np.asarray(labels, np.float64), np.asarray(predictions, np.float64)
    return float(np.mean(np.square(labels - predictions))) if labels.size else float("nan")


def _classification(labels: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
    predictions = outputs.argmax(axis=1)
    scores = {"accuracy": accuracy(labels, predictions), "macro_f1": macro_f1(labels, predictions)}
    if outputs.shape[1] == 2:
        # The difference of two logits orders pairs as the probability does, without its saturation at 0 and 1.
        scores |= {"f1": f1(labels, predictions), "auc": auc(labels, outputs[:, 1] - outputs[:, 0])}
    return scores


def _regression(labels: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
    return {
        "pearson": pearson(labels, outputs),
        "spearman": spearman(labels, outputs),
        "mse": mean_squared_error(labels, outputs),
    }


def _ranking(
    labels: np.ndarray, outputs: np.ndarray, groups: ArrayLike, documents: ArrayLike | None, filtered: bool
) -> dict[str, float]:
    difference = outputs[:, 1] - outputs[:, 0]
    return ranking_scores(labels, difference, groups, documents, filtered) | {
        "accuracy": accuracy(labels, outputs.argmax(axis=1)),
        "auc": auc(labels, difference),
    }


def score_names(task: str, classes: int = 2) -> tuple[str, ...]:
    """The names `score` gives for a task, the first being the task's main score."""
    if task == "classification":
        return ("accuracy", "macro_f1", "f1", "auc") if classes == 2 else ("accuracy", "macro_f1")
    return {"ranking": (*_RANKING, "accuracy", "auc"), "regression": ("pearson", "spearman", "mse")}[task]


def score(
    task: str,
    labels: ArrayLike,
    outputs: ArrayLike,
    *,
    label_names: Sequence[str],
    groups: ArrayLike | None = None,
    documents: ArrayLike | None = None,
    filtered: bool = True,
) -> dict[str, float]:
    """All scores of a task.

    Classification gives accuracy and macro_f1, with two labels also f1 and auc of the second label. Ranking gives
    map, mrr and recall_at_k over the filtered groups (`ranking_scores`), accuracy and auc over all pairs. Regression gives pearson,
    spearman and mse. If an output is not finite, all are NaN.

    Arguments:
      task: "classification", "regression" or "ranking".
      labels: <int32>[pairs], positions in `label_names`; for a regression <float32>[pairs].
      outputs: <float32>[pairs, classes] logits; for a regression <float32>[pairs] or <float32>[pairs, 1].
      label_names: as many as there are classes; for a ranking two, the second meaning right; unused in a regression.
      groups: ranking only, <int32>[pairs] or text.
      documents: ranking only, <str>[pairs] or None.
      filtered: ranking only, which groups count; as in `ranking_scores`.

    Raises:
      ValueError: unknown task, or shapes that do not fit each other.
    """
    if task not in ("classification", "regression", "ranking"):
        raise ValueError(f"unknown task {task!r}; known: classification, regression, ranking")
    labels, outputs = np.asarray(labels), np.asarray(outputs, np.float64)
    pairs, classes = labels.shape[0], len(label_names)
    if task == "regression":
        allowed: tuple[tuple[int, ...], ...] = ((pairs,), (pairs, 1))
    else:
        allowed = ((pairs, 2 if task == "ranking" else classes),)
    if outputs.shape not in allowed or labels.ndim != 1:
        raise ValueError(
            f"{task}: outputs of shape {outputs.shape} do not fit {labels.shape} labels of {classes} classes"
        )
    if task == "ranking" and groups is None:
        raise ValueError("ranking: scores need the groups that candidates compete in")
    if not np.isfinite(outputs).all():
        return dict.fromkeys(score_names(task, classes), float("nan"))
    if task == "classification":
        return _classification(labels, outputs)
    if task == "regression":
        return _regression(labels, outputs.reshape(pairs))
    return _ranking(labels, outputs, groups, documents, filtered)
