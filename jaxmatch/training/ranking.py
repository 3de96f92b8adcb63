"""Scores of rankings by trec_eval's rules: mean average precision, mean reciprocal rank, recall at k.

They are computed in plain NumPy, without loops over groups or models.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

RECALL_AT = (1, 2, 5)  # ranks


def mean_or_nan(values: np.ndarray) -> np.ndarray:
    """Returns the mean over the last axis, or NaN if that axis is empty."""
    return np.mean(values, axis=-1) if values.shape[-1] else np.full(values.shape[:-1], np.nan)


def _tie_order(relevant: np.ndarray, groups: np.ndarray, documents: ArrayLike | None) -> np.ndarray:
    """Returns the order of the pairs if all scores were equal: group by group, and by the rules for ties in each group.

    Returns:
      <int64>[pairs].
    """
    if documents is None:
        return np.lexsort((relevant, groups))
    # Comparing code points orders text as trec_eval's comparison of UTF-8 bytes does.
    names = np.unique(np.asarray(documents), return_inverse=True)[1]
    return np.lexsort((relevant, -names, groups))


def _descending_order(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Returns the order of the pairs by group, and by descending score in each group (stable), <int64>[..., pairs].

    Arguments:
      scores: <float64>[..., pairs].
      groups: <int64>[pairs], ascending.
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
    """Returns the rank of each candidate in its group, from 1, by the rules of `ranking_scores`, <int64>[pairs].

    The arguments are those of `ranking_scores`, but the scores are <float64>[pairs].
    """
    relevant, scores = np.asarray(labels) == 1, np.asarray(scores, np.float64)
    groups = np.unique(np.asarray(groups), return_inverse=True)[1]
    order = _tie_order(relevant, groups, documents)
    order = order[_descending_order(scores[order], groups[order])]
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return ranks


def ranking_scores(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None, filtered: bool = True
) -> dict[str, np.ndarray]:
    """Computes mean average precision, mean reciprocal rank and recall at k by trec_eval's rules.

    Recall at k is the share of a group's right candidates that are ranked among its first k. If each group has one
    right candidate among ten, it is R10@k of Lowe et al. (2015).

    Candidates are ranked by descending score (in float32), and candidates of equal score by descending document name.
    Without document names, or if the names are equal too, wrong candidates come first, so that a model that cannot tell
    candidates apart gains nothing from the order in which they were written.

    Arguments:
      labels: <int32>[pairs]; 1 is right, all else wrong.
      scores: <float64>[..., pairs].
      groups: <int32>[pairs] or text, the group in which each candidate competes. The pairs of a group need not be
        adjacent.
      documents: <str>[pairs], the candidates' names, or None.
      filtered: True: only groups with both right and wrong candidates count, as in the results of RE2 and others on
        WikiQA. False: all groups with a right candidate count; a group without a wrong one cannot be ranked badly.

    Returns:
      "map", "mrr", "recall_at_1", "recall_at_2", "recall_at_5", each <float64>[...]; NaN if no group counts or a score
      is NaN.
    """
    found = scores_of_groups(labels, scores, groups, documents, filtered)
    return {name: mean_or_nan(of_groups) for name, of_groups in found.items()}


def scores_of_groups(
    labels: ArrayLike, scores: ArrayLike, groups: ArrayLike, documents: ArrayLike | None = None, filtered: bool = True
) -> dict[str, np.ndarray]:
    """Computes the scores of each group that counts. `ranking_scores` returns their means and has the same arguments.

    Returns:
      Name -> <float64>[..., groups that count].
    """
    relevant, scores = np.asarray(labels) == 1, np.asarray(scores, np.float64)
    groups = np.unique(np.asarray(groups), return_inverse=True)[1]
    order = _tie_order(relevant, groups, documents)
    relevant, groups = relevant[order], groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(np.append(starts, relevant.size))
    right = np.add.reduceat(relevant.astype(np.int64), starts)
    counted = (right > 0) & (right < sizes) if filtered else right > 0
    relevant = relevant[_descending_order(scores[..., order], groups)]
    rank = np.arange(1, relevant.shape[-1] + 1) - np.repeat(starts, sizes)
    found = np.cumsum(relevant, axis=-1) - np.repeat(np.cumsum(right) - right, sizes)
    defined = ~np.isnan(scores).any(axis=-1, keepdims=True)

    def kept(of_groups: np.ndarray) -> np.ndarray:
        return np.where(defined, np.compress(counted, of_groups, axis=-1), np.nan)

    precision = np.add.reduceat(np.where(relevant, found / rank, 0.0), starts, axis=-1)
    first = np.minimum.reduceat(np.where(relevant, rank, relevant.shape[-1] + 1), starts, axis=-1)
    found_among = {k: np.add.reduceat((relevant & (rank <= k)).astype(np.int64), starts, axis=-1) for k in RECALL_AT}
    of = np.maximum(right, 1)  # a group without a right candidate does not count
    return {
        "map": kept(precision / of),
        "mrr": kept(1.0 / first),
        **{f"recall_at_{k}": kept(found_among[k] / of) for k in RECALL_AT},
    }


def ranking_deviations(
    labels: ArrayLike,
    outputs: ArrayLike,
    groups: ArrayLike,
    documents: ArrayLike | None = None,
    filtered: bool = True,
) -> list[dict[str, Any]]:
    """Computes how much the scores of a ranking differ from question to question, for each of several models.

    A table uses this to show how far a mean over questions may be off because the questions are a sample.

    Arguments:
      labels: <int32>[pairs]; 1 is right, all else wrong.
      outputs: <float32>[replica, pairs, 2], logits.
      groups, documents, filtered: as in `ranking_scores`.

    Returns:
      For each model {"questions": the number of questions that count, "deviations": score -> sample standard deviation
      over these questions}. The deviations are NaN for fewer than two questions, and if an output of the model is not
      finite.
    """
    outputs = np.asarray(outputs, np.float64)
    # Outputs that are not finite give no scores.
    difference = np.subtract(
        outputs[..., 1],
        outputs[..., 0],
        where=np.isfinite(outputs).all(axis=-1),
        out=np.full(outputs.shape[:-1], np.nan),
    )
    found = scores_of_groups(labels, difference, groups, documents, filtered)
    questions = next(iter(found.values())).shape[-1]
    nothing = np.full(len(outputs), np.nan)
    deviations = {
        name: of_groups.std(axis=-1, ddof=1) if questions > 1 else nothing for name, of_groups in found.items()
    }
    return [
        {"questions": questions, "deviations": {name: float(each[replica]) for name, each in deviations.items()}}
        for replica in range(len(outputs))
    ]
