"""The calibration of a trained model's probabilities: a temperature, and a threshold between two labels.

It is stored as calibration.json beside model.json. The file is optional, and versions of jaxmatch that do not know it
can still read the model folder.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.optimize

from jaxmatch import files
from jaxmatch.errors import InputError
from jaxmatch.inference.files import reading

FILE = "calibration.json"
FORMAT = 1
_REMEDY = "remove it: jaxmatch calibrate RUN --remove"
OBJECTIVES = ("accuracy", "f1", "precision")


def probabilities_of(logits: np.ndarray) -> np.ndarray:
    """Computes the softmax: <float32>[pairs, classes] -> <float64>[pairs, classes]. Each row sums to 1."""
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        return powers / powers.sum(axis=1, keepdims=True)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """How logits become probabilities and labels.

    Attributes:
      temperature: the divisor of the logits before the softmax (Guo et al., 2017, section 4.2).
      threshold: the probability from which on the prediction is the positive label; None: the prediction is the most
        probable label.
      positive: the label that the threshold is for.
      objective: the score that the threshold was chosen for: "accuracy", "f1" or "precision"; "" without a threshold.
      precision: the precision that was required; None unless the objective is "precision".
      data: the data that the calibration was chosen on, such as "quora dev".
      pairs: the number of pairs in that data.
      before: the scores on these pairs without the calibration.
      after: the scores on these pairs with the calibration.
    """

    temperature: float = 1.0
    threshold: float | None = None
    positive: str | None = None
    objective: str = ""
    precision: float | None = None
    data: str = ""
    pairs: int = 0
    before: Mapping[str, float] = dataclasses.field(default_factory=dict)
    after: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def scaled(self, logits: np.ndarray) -> np.ndarray:
        """Returns logits whose softmax is the probabilities: <float32>[pairs, labels] -> <float64>[pairs, labels]."""
        return logits.astype(np.float64) / self.temperature

    def decisive(self, logits: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """Returns logits whose maximum is at the predicted label: <float32>[pairs, labels] -> <float64>[pairs, labels].

        They are those of `scaled`, with log(threshold / (1 - threshold)) subtracted for the positive label.
        """
        result = self.scaled(logits)
        if self.threshold is not None:
            result[:, labels.index(self.positive)] -= math.log(self.threshold) - math.log1p(-self.threshold)
        return result

    def save(self, folder: Path, parameters: str) -> None:
        """Writes calibration.json, atomically.

        Arguments:
          folder: the model folder.
          parameters: the checksum of the model's parameters. The calibration holds for these parameters only.
        """
        files.write_json(folder / FILE, {"format": FORMAT, "parameters": parameters, **dataclasses.asdict(self)})

    @classmethod
    def read(cls, folder: Path, parameters: Any, labels: Sequence[str]) -> Self | None:
        """Reads the calibration in a model folder; None if the folder has none.

        Arguments:
          folder: the model folder.
          parameters: the checksum of the model's parameters.
          labels: the model's labels.

        Raises:
          InputError: the file is damaged, was written by a newer version, or belongs to another model.
        """
        path = folder / FILE
        try:
            with reading(path):
                if not path.exists():
                    return None
                stored = files.read_json(path)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot be read ({error})", path=path, remedy=_REMEDY) from error
        if not isinstance(stored, dict) or type(stored.get("format")) is not int:
            raise InputError("is not a calibration", path=path, remedy=_REMEDY)
        if stored["format"] > FORMAT:
            raise InputError(
                f"has format {stored['format']}, and this version reads up to {FORMAT}", path=path, remedy=_REMEDY
            )
        values = {field.name: stored.get(field.name, field.default) for field in dataclasses.fields(cls)[:-2]}
        problem = _problem(values, labels)
        if problem:
            raise InputError(problem, path=path, remedy=_REMEDY)
        if stored.get("parameters") != parameters:
            raise InputError("was made for other parameters", path=path, remedy=_REMEDY)
        scores = {name: found if isinstance(found := stored.get(name), dict) else {} for name in ("before", "after")}
        return cls(**values, **scores)


def _problem(values: Mapping[str, Any], labels: Sequence[str]) -> str:
    """Returns what is wrong with the fields that predictions depend on; "" if they are valid."""
    if not _is_between(values["temperature"], 0, math.inf):
        return "'temperature' is not a number above 0"
    if not len(labels):
        return "a regression has no probabilities"
    if values["threshold"] is not None:
        if not _is_between(values["threshold"], 0, 1):
            return "'threshold' is not a number between 0 and 1"
        if len(labels) != 2 or values["positive"] not in labels:
            return "'positive' is not one of the model's two labels"
    return ""


def _is_between(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low < value < high


# Without bounds, the temperature of a model that is always right would fall to 0, and that of a model that knows
# nothing would rise to infinity.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 100.0
BINS = 15


def chosen_calibration(
    logits: np.ndarray,
    numbers: np.ndarray,
    labels: Sequence[str],
    *,
    objective: str = "accuracy",
    precision: float | None = None,
    positive: str | None = None,
    data: str = "",
) -> Calibration:
    """Chooses the calibration that suits labeled pairs best: a temperature (Guo et al., 2017, section 4.2), and a
    threshold between two labels.

    Arguments:
      logits: <float32>[pairs, labels], the logits of a classification or a ranking.
      numbers: <int32>[pairs], the right labels, as indices of `labels`.
      labels: the names of the labels.
      objective: the score that the threshold between two labels is chosen for: "accuracy", "f1" of the positive label,
        or "precision": the highest recall of the positive label at a precision of at least `precision`. Models with
        more labels have no threshold.
      precision: the required precision, above 0 and at most 1, for the objective "precision"; otherwise None.
      positive: the label that the threshold is for; None: the second label.
      data: the name of the data with the pairs, for `Calibration.data`.

    Returns:
      The calibration, with its scores on these pairs (`before`, `after`).

    Raises:
      InputError: there are no labels, all pairs have one label, an argument is invalid, or no threshold reaches the
        precision.
    """
    if not len(labels):
        raise InputError("a regression has no probabilities to calibrate")
    present = {labels[number] for number in set(numbers.tolist())}
    if len(present) < 2:  # the likelihood would have no maximum
        missing = ", ".join(label for label in labels if label not in present)
        remedy = "calibrate on pairs of two labels or more"
        raise InputError(f"no pair is labeled {missing}", path=data or None, remedy=remedy)
    if objective not in OBJECTIVES:
        raise InputError(f"there is no objective {objective!r}", remedy=f"use one of {', '.join(OBJECTIVES)}")
    if (objective == "precision") != (precision is not None) or not 0 < (1.0 if precision is None else precision) <= 1:
        raise InputError(
            f"precision is {precision}", remedy='give a number in (0, 1] with objective="precision", and none otherwise'
        )
    if len(labels) != 2:
        if objective != "accuracy" or positive is not None:
            raise InputError(
                f"the model has {len(labels)} labels; a threshold needs two",
                remedy="leave out the objective and the positive label",
            )
        found = Calibration(chosen_temperature(logits, numbers), data=data, pairs=len(numbers))
    else:
        positive = labels[1] if positive is None else positive
        if positive not in labels:
            raise InputError(f"{positive!r} is not one of the model's labels ({', '.join(labels)})")
        temperature, column = chosen_temperature(logits, numbers), labels.index(positive)
        probabilities = probabilities_of(logits / np.float64(temperature))[:, column]
        threshold = chosen_threshold(probabilities, numbers == column, objective, precision)
        found = Calibration(temperature, threshold, positive, objective, precision, data, len(numbers))
    return dataclasses.replace(
        found,
        before=quality(Calibration(positive=positive), logits, numbers, labels),
        after=quality(found, logits, numbers, labels),
    )


def chosen_temperature(logits: np.ndarray, numbers: np.ndarray) -> float:
    """Chooses the temperature with the highest likelihood (Guo et al., 2017, section 4.2), from 0.05 to 100.

    Arguments:
      logits: <float32>[pairs, labels].
      numbers: <int32>[pairs], the right labels.
    """
    logits = logits.astype(np.float64)

    def loss(log_temperature: float) -> float:
        return _log_loss(logits / np.exp(log_temperature), numbers)

    bounds = np.log([MIN_TEMPERATURE, MAX_TEMPERATURE])
    # The loss is convex in 1 / temperature, so it has one minimum.
    return float(np.exp(scipy.optimize.minimize_scalar(loss, bounds=bounds, method="bounded").x))


def chosen_threshold(probabilities: np.ndarray, right: np.ndarray, objective: str, precision: float | None) -> float:
    """Chooses the threshold that is best for the objective; among equally good thresholds, the nearest to 0.5.

    Arguments:
      probabilities: <float64>[pairs], the probabilities of the positive label.
      right: <bool>[pairs], whether the positive label is the right label.
      objective, precision: as in `chosen_calibration`.

    Raises:
      InputError: no threshold reaches the precision.
    """
    order = np.argsort(-probabilities, kind="stable")
    falling = probabilities[order]
    hits, taken = np.cumsum(right[order]), np.arange(1, len(order) + 1)
    # A threshold lies between two different probabilities, or below or above all of them.
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    thresholds = (falling[ends] + np.append(falling[ends][1:], 0.0)) / 2
    hits, taken = hits[ends], taken[ends]
    if objective == "precision":
        possible = (thresholds > 0) & (thresholds < 1)
        enough = (hits / taken >= precision) & (hits > 0) & possible
        if not enough.any():
            highest = (hits / taken)[possible].max(initial=0.0)
            raise InputError(f"no threshold reaches a precision of {precision}; the highest is {highest:.4f}")
        merits = np.where(enough, hits * (len(order) + 1) - taken, -1)  # most hits, then fewest false positives
    elif objective == "f1":
        merits = 2 * hits / (taken + right.sum())
    else:
        merits = hits + (~right).sum() - (taken - hits)
    if objective != "precision":  # a threshold above all probabilities
        thresholds = np.append(thresholds, (1 + falling[0]) / 2)
        merits = np.append(merits, (~right).sum() if objective == "accuracy" else 0)
    inside = (thresholds > 0) & (thresholds < 1)
    if not inside.any():  # all probabilities are 0 or 1
        return 0.5
    thresholds, merits = thresholds[inside], merits[inside]
    best = thresholds[merits == merits.max()]
    return float(best[np.argmin(abs(best - 0.5))])


def quality(
    calibration: Calibration, logits: np.ndarray, numbers: np.ndarray, labels: Sequence[str]
) -> dict[str, float]:
    """Computes the accuracy, the log loss and the expected calibration error of predictions.

    For two labels, it also computes the precision, the recall and the F1 of the positive label.

    Arguments:
      calibration: how logits become probabilities and labels.
      logits: <float32>[pairs, labels].
      numbers: <int32>[pairs], the right labels.
      labels: the names of the labels.
    """
    guessed = calibration.decisive(logits, labels).argmax(axis=1)
    scores = {
        "accuracy": float(np.mean(guessed == numbers)),
        "log_loss": _log_loss(calibration.scaled(logits), numbers),
        "expected_calibration_error": expected_calibration_error(probabilities_of(calibration.scaled(logits)), numbers),
    }
    if len(labels) == 2:
        column = labels.index(calibration.positive or labels[1])
        hits = np.count_nonzero((guessed == column) & (numbers == column))
        taken, labeled = np.count_nonzero(guessed == column), np.count_nonzero(numbers == column)
        scores |= {
            "precision": hits / max(taken, 1),
            "recall": hits / max(labeled, 1),
            "f1": 2 * hits / max(taken + labeled, 1),
        }
    return scores


def expected_calibration_error(probabilities: np.ndarray, numbers: np.ndarray) -> float:
    """Computes the expected calibration error (Guo et al., 2017, Eq. 3).

    Predictions are put in 15 bins of equal width by the probability of the most probable label. The error is the mean,
    over bins weighted by their pairs, of the absolute difference between the mean of this probability and the share of
    right predictions.

    Arguments:
      probabilities: <float64>[pairs, labels].
      numbers: <int32>[pairs], the right labels.
    """
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == numbers
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(numbers))


def _log_loss(logits: np.ndarray, numbers: np.ndarray) -> float:
    """Computes the mean of -log of the softmax at the right labels."""
    largest = logits.max(axis=1, keepdims=True)
    sums = np.log(np.exp(logits - largest).sum(axis=1)) + largest[:, 0]
    return float(np.mean(sums - logits[np.arange(len(numbers)), numbers]))
