"""A setting: its default, its bounds and its meaning."""

import dataclasses
from collections.abc import Collection
from typing import Any, Literal

MOST = 2**31 - 1  # what a device holds a number in: samples, ids, sizes
MOST_LAYERS, _MOST_FEATURES, WIDEST = 1000, 1 << 21, 999  # beyond any model, and within what can be traced

Precision = Literal["float32", "highest", "tensorfloat32", "bfloat16"]
Seen = Literal["full", "symmetric", "simple"]


def setting(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: Collection[str] | None = None,
) -> Any:
    """A field of the dataclasses of settings: `least <= value <= most`, `value < below`, and one of `choices`, where
    the type alone does not say them.
    """
    bounds = {"least": least, "most": most, "below": below, "choices": choices}
    return dataclasses.field(default=default, metadata={"help": help, **bounds})


def layers(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=MOST_LAYERS)


def features(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=_MOST_FEATURES)
