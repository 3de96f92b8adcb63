"""Data sets, from files or memory to encoded pairs. Scripts use `names`, `load` and `save`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxmatch.data.catalog import load as load
    from jaxmatch.data.catalog import names as names
    from jaxmatch.data.own import save as save

_MODULES = {"load": "catalog", "names": "catalog", "save": "own"}  # name -> module, imported on first use


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
