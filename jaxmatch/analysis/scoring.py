"""Scores of a trained model against the labels of a split."""

import numpy as np

from jaxmatch.data import catalog
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError
from jaxmatch.inference.matcher import Matcher
from jaxmatch.training.scores import score


def pairs_of(split: Split) -> list[tuple[str, str]]:
    """Returns the pairs of a split in the form that a `Matcher` takes."""
    return list(zip(split.text_a, split.text_b, strict=True))


def label_numbers(matcher: Matcher, split: Split) -> np.ndarray:
    """Returns the labels of a split as indices of the model's outputs; for a regression, as numbers.

    Returns:
      <int32>[pairs], positions in `matcher.labels`; for a regression <float32>[pairs].

    Raises:
      InputError: the split is empty, or has a label that the model does not know.
    """
    if not len(split):
        raise InputError("holds no pairs", path=split.source)
    if matcher.task == "regression":
        return np.asarray(split.labels, np.float32)
    unknown = sorted(set(split.labels) - set(matcher.labels))
    if unknown:
        raise InputError(
            f"label {unknown[0]!r} is not one of the model's ({', '.join(matcher.labels)})", path=split.source
        )
    position = {label: index for index, label in enumerate(matcher.labels)}
    return np.array([position[label] for label in split.labels], np.int32)


def score_outputs(matcher: Matcher, split: Split, outputs: np.ndarray) -> dict[str, float]:
    """Computes all scores of the model's task for given outputs.

    Arguments:
      matcher: the model, which determines the task and the labels.
      split: the pairs.
      outputs: <float>[pairs, outputs], logits or other values with the same order.

    Raises:
      InputError: as in `label_numbers`.
    """
    return score(
        matcher.task,
        label_numbers(matcher, split),
        outputs,
        label_names=matcher.labels,
        groups=split.groups,
        documents=split.documents,
        filtered=catalog.filtered(matcher.config.get("data", {}).get("name", "")),
    )


def score_split(matcher: Matcher, split: Split) -> dict[str, float]:
    """Computes all scores of a model on a split.

    Raises:
      InputError: as in `label_numbers`.
    """
    label_numbers(matcher, split)  # raises an error about a wrong label before the predictions are computed
    return score_outputs(matcher, split, matcher.logits(pairs_of(split)))
