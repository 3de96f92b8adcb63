"""jaxmatch: compact text-matching models trained as whole sweeps."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxmatch import data as data
    from jaxmatch import extend as extend
    from jaxmatch.analysis.attention import attention as attention
    from jaxmatch.config.settings import default_config as default_config
    from jaxmatch.config.settings import with_overrides as with_overrides
    from jaxmatch.errors import InputError as InputError
    from jaxmatch.inference import interop as interop
    from jaxmatch.inference.matcher import Matcher as Matcher
    from jaxmatch.inference.matcher import Prediction as Prediction
    from jaxmatch.inference.matcher import load as load
    from jaxmatch.reporting.layout import Published as Published
    from jaxmatch.reporting.layout import TableLayout as TableLayout
    from jaxmatch.results import evaluate as evaluate
    from jaxmatch.results import records as records
    from jaxmatch.results import table as table
    from jaxmatch.sweep.display import RunListener as RunListener
    from jaxmatch.sweep.files import configs as configs
    from jaxmatch.sweep.files import load_config as load_config
    from jaxmatch.sweep.launch import run as run
    from jaxmatch.sweep.sweep import Sweep as Sweep

__version__ = "0.1.0"

# Name -> its module, which is imported at the first use of the name, so that `jaxmatch --help` does not wait for jax.
MODULES = {
    "InputError": "jaxmatch.errors",
    "Matcher": "jaxmatch.inference.matcher",
    "Prediction": "jaxmatch.inference.matcher",
    "Published": "jaxmatch.reporting.layout",
    "RunListener": "jaxmatch.sweep.display",
    "Sweep": "jaxmatch.sweep.sweep",
    "TableLayout": "jaxmatch.reporting.layout",
    "attention": "jaxmatch.analysis.attention",
    "configs": "jaxmatch.sweep.files",
    "data": "jaxmatch",
    "default_config": "jaxmatch.config.settings",
    "evaluate": "jaxmatch.results",
    "extend": "jaxmatch",
    "interop": "jaxmatch.inference",
    "load": "jaxmatch.inference.matcher",
    "load_config": "jaxmatch.sweep.files",
    "records": "jaxmatch.results",
    "run": "jaxmatch.sweep.launch",
    "table": "jaxmatch.results",
    "with_overrides": "jaxmatch.config.settings",
}
SUBMODULES = ("data", "extend", "interop")
__all__ = [*MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = MODULES[name]
    if name in SUBMODULES:
        return importlib.import_module(f"{module}.{name}")
    return getattr(importlib.import_module(module), name)


def load_ipython_extension(shell: Any) -> None:
    """Adds the command to a notebook as `%jaxmatch`; `%load_ext jaxmatch` calls this function."""
    from jaxmatch.cli import main

    shell.register_magic_function(main.magic, magic_name="jaxmatch")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
