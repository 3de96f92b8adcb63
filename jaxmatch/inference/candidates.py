"""The ranking of texts by how well they match a query."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxmatch.errors import InputError

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A text that was ranked.

    Attributes:
      index: the position of the text among the given texts.
      text: the text.
      score: the probability of the label that means a match; in a regression, the predicted number.
    """

    index: int
    text: str
    score: float


def ranked(
    matcher: Matcher, query: str, candidates: Sequence[str], top_k: int | None = None, label: str | None = None
) -> list[Candidate]:
    """Ranks candidates by how well they match a query. The best is first; equal candidates keep their order.

    Arguments:
      matcher: the model. The query is the first text of each pair.
      query: a text.
      candidates: the texts to rank.
      top_k: the maximum number of candidates to return; None: all.
      label: the label that means a match; None: the label that `matched_label` chooses.

    Raises:
      ValueError: `top_k` is below 1.
      TypeError: a text is not a string, or `top_k` is not a whole number.
      InputError: as in `matched_label` and `Matcher.logits`.
    """
    if top_k is not None and operator.index(top_k) < 1:
        raise ValueError(f"top_k is {top_k}; it must be at least 1")
    label = matched_label(matcher, label)
    candidates = list(candidates)
    logits = matcher.logits([(query, text) for text in candidates])
    if label is None:
        merits = logits[:, 0]
    else:  # the log odds, which do not saturate as the probability does at 0 and 1
        column, scaled = matcher.labels.index(label), matcher.scaled(logits)
        merits = scaled[:, column] - np.logaddexp.reduce(np.delete(scaled, column, axis=1), axis=1)
    best = np.argsort(-merits, kind="stable")[:top_k]
    scores = merits[best] if label is None else matcher.probabilities(logits[best])[:, column]
    return [Candidate(int(index), candidates[index], float(score)) for index, score in zip(best, scores, strict=True)]


def matched_label(matcher: Matcher, label: str | None = None) -> str | None:
    """Returns the label whose probability ranks candidates; None for a regression.

    The default is the positive label of the calibration, or else the second of two labels.

    Raises:
      InputError: the model has no such label, or it has no default label and no label is given.
    """
    labels = matcher.labels
    if not labels:
        if label is not None:
            raise InputError(f"a regression has no label {label!r}", remedy="leave it out")
        return None
    if label is None and matcher.calibration is not None:
        label = matcher.calibration.positive
    if label is None and len(labels) == 2:
        label = labels[1]
    if label is None:
        raise InputError(
            f"the model has {len(labels)} labels ({', '.join(labels)})",
            remedy="name the one that means a match: --label, or label= in Python",
        )
    if label not in labels:
        raise InputError(f"{label!r} is not one of the model's labels ({', '.join(labels)})")
    return label
