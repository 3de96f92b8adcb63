"""A trained model held to the labels of a split."""

import numpy as np

from jaxmatch.data import catalog
from jaxmatch.data.dataset import Split
from jaxmatch.errors import InputError
from jaxmatch.inference.matcher import Matcher
from jaxmatch.training.scores import score


def pairs_of(split: Split) -> list[tuple[str, str]]:
    """The pairs of a split, as a `Matcher` takes them."""
    return list(zip(split.text_a, split.text_b, strict=True))


def label_numbers(matcher: Matcher, split: Split) -> np.ndarray:
    """The labels of a split as the model's outputs are ordered.

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
    """All scores of the model's task for given outputs.

    Arguments:
      matcher: names the task and the labels.
      split: the pairs.
      outputs: <float>[pairs, outputs], logits or anything else ordered as they are.

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
    """All scores of the model for a split.

    Raises:
      InputError: as in `label_numbers`.
    """
    label_numbers(matcher, split)  # a wrong label is found before the work is done
    return score_outputs(matcher, split, matcher.logits(pairs_of(split)))
