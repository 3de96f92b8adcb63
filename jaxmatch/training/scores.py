"""Scores of model outputs against labels: plain NumPy, float64 inside, no loop over pairs, groups or models.

Labels are `[pairs]`, predictions and scores of pairs `[..., pairs]`. The leading axes, such as that of the runs of a
cohort, are also the axes of the result, `<float64>[...]`. A run's score has the same bits whether it is computed alone
or with others.

No input that a training can produce raises an exception or a warning. An undefined score is NaN, so that it can be
neither chosen nor averaged by mistake:

- any output that is not finite makes every score NaN (the run has diverged);
- without pairs, every score is NaN;
- `auc`, `pearson` and `spearman` are NaN if all labels are equal;
- `map`, `mrr` and the other scores of a ranking are NaN if no group counts (`ranking_scores`).

A model that predicts the same for every pair, on the other hand, has the score of a model that knows nothing: `auc` is
0.5, `pearson` and `spearman` are 0, `f1` is 0 if the class is never predicted, and `max_f1` is that of a model that
always predicts it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Scores of rankings follow trec_eval: mean average precision, mean reciprocal rank, recall at k, precision at 1, nDCG.
RECALL_AT = (1, 2, 5)  # ranks


def _grouped(labels: ArrayLike, groups: ArrayLike, documents: ArrayLike | None) -> tuple[np.ndarray, ...]:
    """Sorts pairs by group, and in each group as if all scores were equal.

    Returns:
      the order of the pairs, <int64>[pairs]; their grades, their groups and their ranks in that order; and the start
      and the size of each group in it, <int64>[groups].
    """
    grades, groups = np.asarray(labels, np.int64), np.unique(np.asarray(groups), return_inverse=True)[1]
    keys = [grades, groups]
    if documents is not None:
        # Comparing code points orders text as trec_eval's comparison of UTF-8 bytes does.
        keys.insert(1, -np.unique(np.asarray(documents), return_inverse=True)[1])
    order = np.lexsort(keys)
    grades, groups = grades[order], groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(np.append(starts, groups.size))
    return order, grades, groups, np.arange(1, groups.size + 1) - np.repeat(starts, sizes), starts, sizes


def _descending_order(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Returns the order of the pairs by group, and by descending score in each group (stable), <int64>[..., pairs].

    `groups` is <int64>[pairs], ascending.
    """
    # Complex numbers are sorted by their real parts first.
    key = np.empty(scores.shape, np.complex128)
    with np.errstate(over="ignore"):
        # trec_eval stores scores in single precision, so scores that are equal there must be ties here.
        key.real, key.imag = groups, -scores.astype(np.float32)
    return np.argsort(key, axis=-1, kind="stable")


def candidate_ranks(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None
) -> np.ndarray:
    """Returns the rank of each candidate in its group, from 1, by the rules of `ranking_scores`, <int64>[pairs]."""
    order, _, groups, rank, _, _ = _grouped(labels, groups, documents)
    order = order[_descending_order(np.asarray(scores, np.float64)[order], groups)]
    ranks = np.empty_like(rank)
    ranks[order] = rank
    return ranks


def ranking_scores(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None, filtered: bool = True
) -> dict[str, np.ndarray]:
    """Computes mean average precision, mean reciprocal rank, recall at k, precision at 1 and nDCG by trec_eval's rules.

    Recall at k is the share of a group's right candidates that are ranked among its first k. If each group has one
    right candidate among ten, it is R10@k of Lowe et al. (2015). nDCG is the sum of grade / log2(rank + 1) over a
    group's candidates, as a share of the highest possible sum (Järvelin and Kekäläinen, 2002).

    Candidates are ranked by descending score (in float32), and candidates of equal score by descending document name.
    Without document names, or if the names are equal too, those of the lowest grade come first, so that a model that
    cannot tell candidates apart gains nothing from the order in which they were written.

    Arguments:
      labels: <int32>[pairs], grades of relevance; 0 is wrong, a higher grade is right.
      scores: <float64>[..., pairs].
      groups: <int32>[pairs] or text, the group in which each candidate competes. The pairs of a group need not be
        adjacent.
      documents: <str>[pairs], the candidates' names, or None.
      filtered: True: only groups with both right and wrong candidates count, as in the results of RE2 and others on
        WikiQA. False: all groups with a right candidate count; a group without a wrong one cannot be ranked badly.

    Returns:
      "map", "mrr", "recall_at_1", "recall_at_2", "recall_at_5", "precision_at_1", "ndcg", each <float64>[...]; NaN if
      no group counts or a score is NaN.
    """
    found = scores_of_groups(labels, scores, groups, documents, filtered)
    undefined = np.full(np.shape(scores)[:-1], np.nan)
    return {name: each.mean(axis=-1) if each.shape[-1] else undefined for name, each in found.items()}


def scores_of_groups(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None, filtered: bool = True
) -> dict[str, np.ndarray]:
    """Returns name -> score of each group that counts, <float64>[..., groups]. `ranking_scores` returns the means."""
    order, grades, groups, rank, starts, sizes = _grouped(labels, groups, documents)
    scores, relevant = np.asarray(scores, np.float64), grades > 0
    right = np.add.reduceat(relevant.astype(np.int64), starts)
    counted = (right > 0) & (right < sizes) if filtered else right > 0
    ranked = grades[_descending_order(scores[..., order], groups)]
    relevant = ranked > 0
    found = np.cumsum(relevant, axis=-1) - np.repeat(np.cumsum(right) - right, sizes)
    defined = ~np.isnan(scores).any(axis=-1, keepdims=True)

    def kept(of_groups: np.ndarray) -> np.ndarray:
        return np.where(defined, np.compress(counted, of_groups, axis=-1), np.nan)

    precision = np.add.reduceat(np.where(relevant, found / rank, 0.0), starts, axis=-1)
    first = np.minimum.reduceat(np.where(relevant, rank, relevant.shape[-1] + 1), starts, axis=-1)
    found_among = {k: np.add.reduceat((relevant & (rank <= k)).astype(np.int64), starts, axis=-1) for k in RECALL_AT}
    of = np.maximum(right, 1)  # a group without a right candidate does not count
    ideal = grades[np.lexsort((-grades, groups))]
    gain, best = (np.add.reduceat(each / np.log2(rank + 1), starts, axis=-1) for each in (ranked, ideal))
    return {
        "map": kept(precision / of),
        "mrr": kept(1.0 / first),
        **{f"recall_at_{k}": kept(found_among[k] / of) for k in RECALL_AT},
        "precision_at_1": kept((first == 1).astype(np.float64)),
        "ndcg": kept(gain / np.where(right > 0, best, 1.0)),
    }


def ranking_deviations(
    labels: ArrayLike, outputs: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None, filtered: bool = True
) -> list[dict[str, Any]]:
    """Computes how much the scores of a ranking differ from question to question, for each of several models.

    A table uses this to show how far a mean over questions may be off because the questions are a sample.

    Arguments:
      labels, groups, documents, filtered: as in `ranking_scores`.
      outputs: <float32>[run, pairs, 2], logits.

    Returns:
      For each run {"questions": the number of questions that count, "deviations": score -> sample standard deviation
      over these questions}. The deviations are NaN for fewer than two questions, and if an output of the run is not
      finite.
    """
    outputs = np.asarray(outputs, np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where(np.isfinite(outputs).all(axis=-1), outputs[..., 1] - outputs[..., 0], np.nan)
    found = scores_of_groups(labels, difference, groups, documents, filtered)
    questions = found["map"].shape[-1]
    undefined = np.full(len(outputs), np.nan)
    deviations = {name: each.std(axis=-1, ddof=1) if questions > 1 else undefined for name, each in found.items()}
    return [
        {"questions": questions, "deviations": {name: float(each[run]) for name, each in deviations.items()}}
        for run in range(len(outputs))
    ]


class AddedScore(NamedTuple):
    """A score added with jaxmatch/extend.py, which describes the arguments of its function."""

    task: str
    function: Callable[..., ArrayLike]
    takes_groups: bool


ADDED: dict[str, AddedScore] = {}
_RANKING = ("map", "mrr", *(f"recall_at_{rank}" for rank in RECALL_AT), "precision_at_1", "ndcg")


def f1(labels: ArrayLike, predictions: ArrayLike, positive: int = 1) -> np.ndarray:
    """Computes F1 of one class, 2 hits / (2 hits + misses + false alarms); 0 if the class is neither among the labels
    nor predicted.
    """
    right, predicted = np.asarray(labels) == positive, np.asarray(predictions) == positive
    occurrences = np.count_nonzero(right) + np.count_nonzero(predicted, axis=-1)
    return 2 * np.count_nonzero(right & predicted, axis=-1) / np.maximum(occurrences, 1)


def max_f1(labels: ArrayLike, scores: ArrayLike) -> np.ndarray:
    """Computes the best F1 of label 1 over all thresholds, the scores of the pairs; 0 without pairs of label 1."""
    positive, scores = np.asarray(labels) == 1, np.asarray(scores, np.float64)
    order = np.argsort(-scores, axis=-1)
    hits = np.cumsum(positive[order], axis=-1)
    taken = np.arange(1, positive.size + 1)
    values = 2 * hits / (taken + np.count_nonzero(positive))
    falling = np.take_along_axis(scores, order, axis=-1)
    # Of pairs with equal scores, a threshold takes all or none.
    last = np.concatenate([falling[..., 1:] < falling[..., :-1], np.ones_like(falling[..., :1], bool)], axis=-1)
    return np.where(last, values, 0.0).max(axis=-1)


def macro_f1(labels: ArrayLike, predictions: ArrayLike) -> np.ndarray:
    """Computes the unweighted mean of `f1` over the classes among the labels or the predictions."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    classes = np.union1d(labels, predictions)
    each = np.array([f1(labels, predictions, c) for c in classes])
    occurs = np.array([(labels == c).any() | (predictions == c).any(axis=-1) for c in classes])
    flat = zip(each.reshape(len(classes), -1).T, occurs.reshape(len(classes), -1).T, strict=True)
    return np.array([np.mean(values[among]) for values, among in flat]).reshape(predictions.shape[:-1])


def auc(labels: ArrayLike, scores: ArrayLike) -> np.ndarray:
    """Computes the area under the ROC curve: how often a pair of label 1 scores above another; ties count half.

    It is computed from the rank sum (Mann and Whitney 1947), and NaN if all labels are 1 or none is.
    """
    positive, scores = np.asarray(labels) == 1, np.asarray(scores, np.float64)
    positives = int(np.count_nonzero(positive))
    negatives = positive.size - positives
    if not positives or not negatives:
        return np.full(scores.shape[:-1], np.nan)
    rank_sum = _ranks(scores)[..., positive].sum(axis=-1)
    return (rank_sum - positives * (positives + 1) / 2.0) / (positives * negatives)


def pearson(labels: ArrayLike, predictions: ArrayLike) -> np.ndarray:
    """Computes Pearson's correlation.

    It is 0 if all predictions are equal. It is NaN if all labels are equal, if there are fewer than two pairs, or if a
    prediction is not finite.
    """
    labels, predictions = np.asarray(labels, np.float64), np.asarray(predictions, np.float64)
    # Compared before the mean is subtracted: after that, rounding makes equal numbers look different.
    if labels.size < 2 or np.ptp(labels) == 0:
        return np.full(predictions.shape[:-1], np.nan)
    defined = np.isfinite(predictions).all(axis=-1)
    constant = (predictions == predictions[..., :1]).all(axis=-1)
    # The correlation of equal or non-finite predictions is not used.
    with np.errstate(divide="ignore", invalid="ignore"):
        labels, predictions = labels - labels.mean(), predictions - predictions.mean(axis=-1, keepdims=True)
        # Scaled to 1 first, so that the squares of tiny or huge deviations neither underflow nor overflow.
        labels /= np.abs(labels).max()
        predictions /= np.abs(predictions).max(axis=-1, keepdims=True)
        covariance = np.vecdot(labels, predictions)
        correlation = covariance / np.sqrt(np.vecdot(labels, labels) * np.vecdot(predictions, predictions))
    return np.where(defined, np.where(constant, 0.0, np.clip(correlation, -1.0, 1.0)), np.nan)


def spearman(labels: ArrayLike, predictions: ArrayLike) -> np.ndarray:
    """Computes Spearman's rank correlation, which is `pearson` of the average ranks; NaN if a prediction is NaN."""
    return pearson(_ranks(labels), _ranks(predictions))


def _ranks(values: ArrayLike) -> np.ndarray:
    """Returns ranks from 1 upward, <float64>[..., pairs]. Equal values share the mean of their ranks. All ranks are NaN
    if a value is NaN.
    """
    from scipy import stats  # importing it takes most of a second, which only two scores need

    return stats.rankdata(values, axis=-1)


def score_names(task: str, classes: int = 2) -> tuple[str, ...]:
    """Returns the names of the scores of a task. The first one is the task's main score."""
    names: tuple[str, ...] = {
        "classification": ("accuracy", "macro_f1"),
        "ranking": (*_RANKING, "accuracy", "auc"),
        "regression": ("pearson", "spearman", "mse"),
    }[task]
    if task == "classification" and classes == 2:
        names += ("f1", "max_f1", "auc")
    return (*names, *(name for name, added in ADDED.items() if added.task == task))


def score(task: str, labels: ArrayLike, outputs: ArrayLike, **about_labels: Any) -> dict[str, float]:
    """Computes the scores of one model: `scores_of_runs` of outputs without the axis of the runs."""
    return scores_of_runs(task, labels, np.asarray(outputs)[None], **about_labels)[0]


def scores_of_runs(
    task: str,
    labels: ArrayLike,
    outputs: ArrayLike,
    *,
    label_names: Sequence[str],
    groups: ArrayLike | None = None,
    documents: ArrayLike | None = None,
    filtered: bool = True,
) -> list[dict[str, float]]:
    """Computes all scores of a task for each of several models.

    Classification gives accuracy and macro_f1, and with two labels also f1, max_f1 and auc of the second label. Ranking
    gives map, mrr and so on over the groups that count (`ranking_scores`), and accuracy and auc over all pairs.
    Regression gives pearson, spearman and mse. If an output of a model is not finite, all its scores are NaN.

    Arguments:
      task: "classification", "regression" or "ranking".
      labels: <int32>[pairs], positions in `label_names`; for a regression <float32>[pairs]; a ranking takes grades.
      outputs: <float32>[run, pairs, classes] logits; for a regression <float32>[run, pairs] or [run, pairs, 1].
      label_names: one name per class; for a ranking two names, of which the second means right; unused in a regression.
      groups, documents, filtered: as in `ranking_scores`; unused in other tasks.
    """
    labels, outputs = np.asarray(labels), np.asarray(outputs, np.float64)
    if task == "ranking":
        grades, labels = labels, np.minimum(labels, 1)
    pairs, names = len(labels), score_names(task, len(label_names))
    found = np.full((len(outputs), len(names)), np.nan)
    finite = np.flatnonzero(np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim))))
    if pairs and finite.size:
        outputs = outputs[finite]
        if task == "regression":
            outputs = outputs.reshape(-1, pairs)
            scores = {
                "pearson": pearson(labels, outputs),
                "spearman": spearman(labels, outputs),
                "mse": np.square(labels - outputs).mean(axis=-1),
            }
        else:
            predictions = outputs.argmax(axis=-1)
            scores = {"accuracy": (labels == predictions).mean(axis=-1)}
            if task == "classification":
                scores["macro_f1"] = macro_f1(labels, predictions)
        if "auc" in names:
            # The difference of two logits orders pairs as the probability does, but does not saturate at 0 and 1.
            difference = outputs[..., 1] - outputs[..., 0]
            scores["auc"] = auc(labels, difference)
            if task == "ranking":
                scores |= ranking_scores(grades, difference, groups, documents, filtered)
            else:
                scores |= {"f1": f1(labels, predictions), "max_f1": max_f1(labels, difference)}
        for name, added in ADDED.items():
            if added.task == task:
                more = {"groups": np.asarray(groups)} if added.takes_groups else {}
                scores[name] = np.asarray(added.function(labels, outputs, **more), np.float64)
        found[finite] = np.stack([scores[name] for name in names], axis=-1)
    return [dict(zip(names, row, strict=True)) for row in found.tolist()]
