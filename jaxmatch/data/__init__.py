"""Data sets, from files to encoded pairs. Scripts use `names` and `load`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxmatch.data.catalog import load as load
    from jaxmatch.data.catalog import names as names


def __getattr__(name: str) -> Any:
    if name not in ("load", "names"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.catalog"), name)  # on first use
