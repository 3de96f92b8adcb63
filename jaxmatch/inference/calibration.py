"""The calibration of a trained model's probabilities: a temperature, and a threshold between two labels.

It is stored as calibration.json beside model.json, for the parameters of this model alone.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from jaxmatch import files
from jaxmatch.errors import InputError, report_damage

FILE, FORMAT = "calibration.json", 1
_REMEDY = "remove it, and calibrate again"
# Without bounds, the temperature of a model that is always right would fall to 0, and that of a model that knows
# nothing would rise to infinity.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 100.0
BINS = 15


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
      threshold: the probability from which on the prediction is the label `positive`; None: the prediction is the most
        probable label.
      objective, precision: as in `chosen_calibration`; empty without a threshold.
      data, pairs: the data that the calibration was chosen on, such as "quora dev", and the number of its pairs.
      before, after: the scores on these pairs, without and with the calibration.
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

    def save(self, folder: Path, parameters: str) -> Path:
        """Writes calibration.json into a model folder, atomically; `parameters`: the checksum of its parameters."""
        files.write_json(folder / FILE, {"format": FORMAT, "parameters": parameters, **dataclasses.asdict(self)})
        return folder / FILE

    @classmethod
    def read(cls, folder: Path, parameters: str, labels: Sequence[str]) -> Self | None:
        """Reads the calibration in a model's folder; None without one. A file that does not fit is an InputError."""
        path = folder / FILE
        if not path.exists():
            return None
        with report_damage(path, _REMEDY, "the calibration"):
            stored = files.read_json(path)
            if stored.pop("format") != FORMAT:
                raise InputError(f"its format is not {FORMAT}", path=path, remedy=_REMEDY)
            if stored.pop("parameters") != parameters:
                raise InputError("was made for other parameters", path=path, remedy=_REMEDY)
            found = cls(**stored)
            valid = found.temperature > 0
            if found.threshold is not None:
                valid = valid and 0 < found.threshold < 1 and len(labels) == 2 and found.positive in labels
        if not valid:
            raise InputError("its temperature or threshold does not fit the model", path=path, remedy=_REMEDY)
        return found


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
    """Chooses the temperature (Guo et al., 2017, section 4.2), and the threshold between two labels, for labeled pairs.

    Arguments:
      logits: <float32>[pairs, labels], the logits of a classification or a ranking.
      numbers: <int32>[pairs], the right labels, as indices of `labels`.
      labels: the names of the labels. Only a model with two labels has a threshold.
      objective: the score that the threshold is chosen for: "accuracy", "f1" of the positive label, or "precision": the
        highest recall of the positive label at a precision of at least `precision`.
      precision: the required precision, above 0 and at most 1, for the objective "precision".
      positive: the label that the threshold is for; None: the second label.
      data: the name of the data with the pairs.

    Raises:
      InputError: there are no labels, all pairs have one label, there is no such positive label, a model with more than
        two labels is to have a threshold, or no threshold reaches the precision.
    """
    if not labels:
        raise InputError("a regression has no probabilities to calibrate")
    missing = [label for number, label in enumerate(labels) if number not in numbers]
    if len(labels) - len(missing) < 2:  # the likelihood would have no maximum
        problem, remedy = f"no pair is labeled {', '.join(missing)}", "calibrate on pairs of two labels or more"
        raise InputError(problem, path=data or None, remedy=remedy)
    temperature = chosen_temperature(logits, numbers)
    if len(labels) == 2:
        positive = labels[1] if positive is None else positive
        if positive not in labels:
            raise InputError(f"{positive!r} is not one of the model's labels ({', '.join(labels)})")
        column = labels.index(positive)
        probabilities = probabilities_of(logits / np.float64(temperature))[:, column]
        threshold = chosen_threshold(probabilities, numbers == column, objective, precision)
        found = Calibration(temperature, threshold, positive, objective, precision, data, len(numbers))
    elif objective == "accuracy" and positive is None:
        found = Calibration(temperature, data=data, pairs=len(numbers))
    else:
        remedy = "leave out the objective and the positive label"
        raise InputError(f"the model has {len(labels)} labels; a threshold needs two", remedy=remedy)
    before = quality(Calibration(positive=positive), logits, numbers, labels)
    return dataclasses.replace(found, before=before, after=quality(found, logits, numbers, labels))


def chosen_temperature(logits: np.ndarray, numbers: np.ndarray) -> float:
    """Chooses the temperature with the highest likelihood (Guo et al., 2017, section 4.2) for the right labels
    <int32>[pairs] of logits <float32>[pairs, labels], from 0.05 to 100.
    """
    from scipy import optimize  # imported here because the import takes half a second

    logits = logits.astype(np.float64)

    def loss(log_temperature: float) -> float:
        return _log_loss(logits / np.exp(log_temperature), numbers)

    bounds = np.log([MIN_TEMPERATURE, MAX_TEMPERATURE])
    # The loss is convex in 1 / temperature, so it has one minimum.
    return float(np.exp(optimize.minimize_scalar(loss, bounds=bounds, method="bounded").x))


def chosen_threshold(probabilities: np.ndarray, right: np.ndarray, objective: str, precision: float | None) -> float:
    """Chooses the threshold that is best for the objective; among equally good thresholds, the nearest to 0.5.

    `probabilities` <float64>[pairs] are those of the positive label; `right` <bool>[pairs] says where it is right.
    """
    order = np.argsort(-probabilities, kind="stable")
    # Threshold k lies below k probabilities, halfway between two neighbors of which neither equals it.
    falling = np.concatenate([[1.0], probabilities[order], [0.0]])
    thresholds = (falling[:-1] + falling[1:]) / 2
    possible = (falling[:-1] > falling[1:]) & (thresholds > 0) & (thresholds < 1)
    hits, taken = np.append(0, np.cumsum(right[order])), np.arange(len(order) + 1)
    if objective == "precision":
        precisions = hits / np.maximum(taken, 1)
        possible_precise = possible & (precisions >= precision) & (hits > 0)
        if not possible_precise.any():
            highest = precisions[possible].max(initial=0.0)
            raise InputError(f"no threshold reaches a precision of {precision}; the highest is {highest:.4f}")
        possible, merits = possible_precise, hits * (len(order) + 1) - taken  # most hits, then fewest false positives
    elif objective == "f1":
        merits = 2 * hits / np.maximum(taken + right.sum(), 1)
    elif objective == "accuracy":
        merits = hits + (~right).sum() - (taken - hits)
    else:
        raise ValueError(f"there is no objective {objective!r}")
    if not possible.any():  # all probabilities are 0 or 1
        return 0.5
    best = thresholds[possible & (merits == merits[possible].max())]
    return float(best[np.argmin(abs(best - 0.5))])


def quality(
    calibration: Calibration, logits: np.ndarray, numbers: np.ndarray, labels: Sequence[str]
) -> dict[str, float]:
    """Computes the accuracy, the log loss and the expected calibration error of predictions.

    For two labels, it also computes the precision, the recall and the F1 of the positive label. The arguments are those
    of `chosen_calibration`.
    """
    guessed, scaled = calibration.decisive(logits, labels).argmax(axis=1), calibration.scaled(logits)
    scores = {
        "accuracy": float(np.mean(guessed == numbers)),
        "log_loss": _log_loss(scaled, numbers),
        "expected_calibration_error": expected_calibration_error(probabilities_of(scaled), numbers),
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
    """Computes the expected calibration error of probabilities <float64>[pairs, labels] (Guo et al., 2017, Eq. 3).

    Predictions are put in 15 bins of equal width by the probability of the most probable label. The error is the mean,
    over bins weighted by their pairs, of the absolute difference between the mean of this probability and the share of
    right predictions.
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
