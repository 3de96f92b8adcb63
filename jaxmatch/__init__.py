"""jaxmatch: compact text-matching models trained as whole sweeps."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxmatch.analysis.attention import attention as attention
    from jaxmatch.errors import InputError as InputError
    from jaxmatch.inference import interop as interop
    from jaxmatch.inference.matcher import Matcher as Matcher
    from jaxmatch.inference.matcher import Prediction as Prediction
    from jaxmatch.inference.matcher import load as load
    from jaxmatch.reporting.records import best_record as best_record
    from jaxmatch.reporting.significance import mean_interval as mean_interval
    from jaxmatch.reporting.significance import welch as welch
    from jaxmatch.reporting.sweep_folder import read_sweep_folder as read_sweep_folder
    from jaxmatch.reporting.tables import Published as Published
    from jaxmatch.reporting.tables import TableLayout as TableLayout
    from jaxmatch.reporting.tables import make_table as make_table
    from jaxmatch.settings import default_config as default_config
    from jaxmatch.settings import with_overrides as with_overrides
    from jaxmatch.sweep.grid import Sweep as Sweep
    from jaxmatch.sweep.launch import run as run
    from jaxmatch.sweep.launcher_files import load_config as load_config

__version__ = "0.1.0"

# Name -> its module, imported when the name is first used: `jaxmatch --help` should not wait for jax.
MODULES = {
    "InputError": "jaxmatch.errors",
    "Matcher": "jaxmatch.inference.matcher",
    "Prediction": "jaxmatch.inference.matcher",
    "Published": "jaxmatch.reporting.tables",
    "Sweep": "jaxmatch.sweep.grid",
    "TableLayout": "jaxmatch.reporting.tables",
    "attention": "jaxmatch.analysis.attention",
    "best_record": "jaxmatch.reporting.records",
    "default_config": "jaxmatch.settings",
    "interop": "jaxmatch.inference",
    "load": "jaxmatch.inference.matcher",
    "load_config": "jaxmatch.sweep.launcher_files",
    "make_table": "jaxmatch.reporting.tables",
    "mean_interval": "jaxmatch.reporting.significance",
    "read_sweep_folder": "jaxmatch.reporting.sweep_folder",
    "run": "jaxmatch.sweep.launch",
    "welch": "jaxmatch.reporting.significance",
    "with_overrides": "jaxmatch.settings",
}
__all__ = [*MODULES]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(MODULES[name])
    return importlib.import_module(f"{module.__name__}.{name}") if name == "interop" else getattr(module, name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jaxmatch` in a notebook adds the command as `%jaxmatch`."""
    from jaxmatch.cli import magic

    magic.register(shell)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
