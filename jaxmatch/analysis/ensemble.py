"""Several runs of one setting combined into one model, by majority vote or by averaged probabilities.

RE2 lets eight runs vote (Yang et al., 2019, section 3.3); the paper does not state how a tie is resolved.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from jaxmatch.analysis.scoring import label_numbers, pairs_of, score_outputs
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError
from jaxmatch.inference.calibration import probabilities_of
from jaxmatch.inference.matcher import Matcher


@dataclasses.dataclass(frozen=True)
class EnsembleScores:
    """The scores of some runs alone and together. Each mapping is score name -> value.

    Attributes:
      single: the scores of each run.
      vote: the scores of the majority vote; None for a regression, whose numbers cannot vote.
      average: the scores of the averaged probabilities; for a regression, of the averaged numbers.
    """

    single: tuple[Mapping[str, float], ...]
    vote: Mapping[str, float] | None
    average: Mapping[str, float]


def average(probabilities: np.ndarray) -> np.ndarray:
    """Computes the mean over the runs: <float>[runs, pairs, classes] -> <float64>[pairs, classes]."""
    return _of_runs(probabilities).mean(axis=0)


def vote_shares(probabilities: np.ndarray) -> np.ndarray:
    """Computes each class's share of the runs' votes; the summed probability decides between equal shares.

    A run votes for its most probable class. The averaged probability of a class is added to its share of the votes. It
    is scaled down to less than the weight of one vote, so that it orders equal shares and changes no other order.

    Arguments:
      probabilities: <float>[runs, pairs, classes].

    Returns:
      <float64>[pairs, classes]; NaN where the probabilities of a run are NaN.
    """
    probabilities = _of_runs(probabilities)
    runs, _, classes = probabilities.shape
    votes = np.eye(classes)[probabilities.argmax(axis=2)].mean(axis=0)
    return votes + probabilities.mean(axis=0) / (2 * runs)


def ensemble(matchers: Iterable[Matcher], split: Split) -> EnsembleScores:
    """Scores some runs on one split, alone and together.

    Arguments:
      matchers: the runs, used one after another. If a generator loads them, only the first and the current run are in
        memory.
      split: the pairs.

    Raises:
      InputError: no run is given, the runs have different tasks or labels, the split is empty, or it has a label that
        the runs do not know.
    """
    first, outputs, single = None, [], []
    for matcher in matchers:
        if first is None:
            first = matcher
            label_numbers(first, split)  # raises an error about a wrong label before the predictions are computed
        elif (matcher.task, matcher.labels) != (first.task, first.labels):
            raise InputError(
                "the runs of an ensemble must have the same task and labels: "
                f"{_task_and_labels(first)} and {_task_and_labels(matcher)}",
                remedy="give runs of one data set",
            )
        logits = matcher.logits(pairs_of(split))
        single.append(score_outputs(matcher, split, logits))
        outputs.append(logits.astype(np.float64) if matcher.task == "regression" else probabilities_of(logits))
    if first is None:
        raise InputError("an ensemble needs at least one run")
    outputs = np.stack(outputs)
    exact = exact_in_float32 if first.task == "ranking" else lambda together: together
    return EnsembleScores(
        single=tuple(single),
        vote=None if first.task == "regression" else score_outputs(first, split, exact(vote_shares(outputs))),
        average=score_outputs(first, split, exact(average(outputs))),
    )


def exact_in_float32(outputs: np.ndarray) -> np.ndarray:
    """Replaces the differences of two outputs by whole numbers of the same order and sign.

    A ranking compares differences in float32, in which small differences beside a vote would be ties.

    Arguments:
      outputs: <float64>[pairs, 2].

    Returns:
      <float64>[pairs, 2]; NaN where an output is NaN.
    """
    difference = outputs[:, 1] - outputs[:, 0]
    values, place = np.unique(difference, return_inverse=True)
    numbers = np.arange(len(values)) - np.searchsorted(values, 0.0)
    numbers += (values > 0) & ~np.any(values == 0)  # without a zero, the smallest positive difference is 1
    return np.where(np.isnan(difference), np.nan, [np.zeros(len(place)), numbers[place]]).T


def _task_and_labels(matcher: Matcher) -> str:
    return f"{matcher.task} ({', '.join(matcher.labels) or 'a number'})"


def _of_runs(probabilities: np.ndarray) -> np.ndarray:
    probabilities = np.asarray(probabilities, np.float64)
    if probabilities.ndim != 3 or not len(probabilities):
        raise ValueError(f"shape {probabilities.shape} is not (runs, pairs, classes) with one run or more")
    return probabilities
