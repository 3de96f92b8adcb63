"""The fields of settings: their defaults, bounds and meanings."""

import dataclasses
from collections.abc import Collection
from typing import Any, Literal

MOST = 2**31 - 1  # the maximum of int32, in which a device holds numbers of samples, ids and sizes
MOST_LAYERS, _MOST_FEATURES, WIDEST = 1000, 1 << 21, 999  # larger than any model needs, and still possible to trace

Precision = Literal["float32", "highest", "tensorfloat32", "bfloat16"]
# The inputs of the prediction layers, computed from the vectors of both sentences (models/re2.py).
HeadInputs = Literal["full", "symmetric", "simple"]


def setting(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: Collection[str] | None = None,
) -> Any:
    """Returns a field of a dataclass of settings.

    Arguments:
      default: the default of the setting.
      help: the meaning of the setting.
      least, most, below: bounds: `least <= value <= most` and `value < below`.
      choices: the allowed values besides the default, unless the type of the field states them.
    """
    bounds = {"least": least, "most": most, "below": below, "choices": choices}
    return dataclasses.field(default=default, metadata={"help": help, **bounds})


def layers(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=MOST_LAYERS)


def features(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=_MOST_FEATURES)
