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

from jaxmatch import files
from jaxmatch.errors import InputError
from jaxmatch.inference.checked_files import reading
from jaxmatch.plain_file import check_plain_file

FILE = "calibration.json"
FORMAT = 1
_REMEDY = "remove it: jaxmatch calibrate RUN --remove"
OBJECTIVES = ("accuracy", "f1", "precision")


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
                check_plain_file(path, _REMEDY, 1 << 16)
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
