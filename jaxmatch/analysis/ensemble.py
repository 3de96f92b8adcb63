"""Several runs of one setting as one model: by majority vote, or by averaging their probabilities.

RE2 lets eight runs vote (Yang et al., 2019, section 3.3); what happens in a tie it does not say.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from jaxmatch.analysis.scoring import label_numbers, pairs_of, score_outputs
from jaxmatch.data.dataset import Split
from jaxmatch.errors import InputError
from jaxmatch.inference.matcher import Matcher, probabilities_of


@dataclasses.dataclass(frozen=True)
class EnsembleScores:
    """The scores of some runs alone and together; score -> value in each.

    Attributes:
      single: of each run.
      vote: of the majority vote; None for a regression, whose numbers cannot vote.
      average: of the averaged probabilities; for a regression of the averaged numbers.
    """

    single: tuple[Mapping[str, float], ...]
    vote: Mapping[str, float] | None
    average: Mapping[str, float]


def average(probabilities: np.ndarray) -> np.ndarray:
    """The mean over the runs: <float>[runs, pairs, classes] -> <float64>[pairs, classes]."""
    return _of_runs(probabilities).mean(axis=0)


def vote_shares(probabilities: np.ndarray) -> np.ndarray:
    """How the runs' votes divide, with equal numbers of votes ordered by the summed probability.

    A run votes for its most probable class. To its share of the votes each class is given its averaged probability,
    scaled down so that all of it weighs less than a vote: it orders equal shares and changes no others.

    Arguments:
      probabilities: <float>[runs, pairs, classes].

    Returns:
      <float64>[pairs, classes]; NaN where a run's probabilities are.
    """
    probabilities = _of_runs(probabilities)
    runs, _, classes = probabilities.shape
    votes = np.eye(classes)[probabilities.argmax(axis=2)].mean(axis=0)
    return votes + probabilities.mean(axis=0) / (2 * runs)


def ensemble(matchers: Iterable[Matcher], split: Split) -> EnsembleScores:
    """Scores some runs on one split, alone and together.

    Arguments:
      matchers: the runs, taken one after another: of a generator that loads them the first and the current one stay in
        memory.
      split: the pairs.

    Raises:
      InputError: no run; runs of different tasks or labels; an empty split or an unknown label.
    """
    first, outputs, single = None, [], []
    for matcher in matchers:
        if first is None:
            first = matcher
            label_numbers(first, split)  # a wrong label is found before the work is done
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
    return EnsembleScores(
        single=tuple(single),
        vote=None if first.task == "regression" else score_outputs(first, split, vote_shares(outputs)),
        average=score_outputs(first, split, average(outputs)),
    )


def _task_and_labels(matcher: Matcher) -> str:
    return f"{matcher.task} ({', '.join(matcher.labels) or 'a number'})"


def _of_runs(probabilities: np.ndarray) -> np.ndarray:
    probabilities = np.asarray(probabilities, np.float64)
    if probabilities.ndim != 3 or not len(probabilities):
        raise ValueError(f"shape {probabilities.shape} is not (runs, pairs, classes) with one run or more")
    return probabilities
