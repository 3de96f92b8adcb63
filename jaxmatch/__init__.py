"""jaxmatch: compact text-matching models trained as whole sweeps."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxmatch.analysis.attention import attention as attention
    from jaxmatch.analysis.significance import mean_interval as mean_interval
    from jaxmatch.analysis.significance import welch as welch
    from jaxmatch.config import default_config as default_config
    from jaxmatch.errors import InputError as InputError
    from jaxmatch.experiments.configuration import load_config as load_config
    from jaxmatch.experiments.configuration import with_overrides as with_overrides
    from jaxmatch.experiments.launch import run as run
    from jaxmatch.experiments.reading import read_sweep_folder as read_sweep_folder
    from jaxmatch.experiments.records import best_record as best_record
    from jaxmatch.experiments.sweep import Sweep as Sweep
    from jaxmatch.experiments.tables import Published as Published
    from jaxmatch.experiments.tables import TableLayout as TableLayout
    from jaxmatch.experiments.tables import make_table as make_table
    from jaxmatch.inference import interop as interop
    from jaxmatch.inference.matcher import Matcher as Matcher
    from jaxmatch.inference.matcher import Prediction as Prediction
    from jaxmatch.inference.matcher import load as load

__version__ = "0.1.0"

# Name -> its module, imported when the name is first used: `jaxmatch --help` should not wait for jax.
_MODULES = {
    "InputError": "jaxmatch.errors",
    "Matcher": "jaxmatch.inference.matcher",
    "Prediction": "jaxmatch.inference.matcher",
    "Published": "jaxmatch.experiments.tables",
    "Sweep": "jaxmatch.experiments.sweep",
    "TableLayout": "jaxmatch.experiments.tables",
    "attention": "jaxmatch.analysis.attention",
    "best_record": "jaxmatch.experiments.records",
    "default_config": "jaxmatch.config",
    "interop": "jaxmatch.inference",
    "load": "jaxmatch.inference.matcher",
    "load_config": "jaxmatch.experiments.configuration",
    "make_table": "jaxmatch.experiments.tables",
    "mean_interval": "jaxmatch.analysis.significance",
    "read_sweep_folder": "jaxmatch.experiments.reading",
    "run": "jaxmatch.experiments.launch",
    "welch": "jaxmatch.analysis.significance",
    "with_overrides": "jaxmatch.experiments.configuration",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_MODULES[name])
    return importlib.import_module(f"{module.__name__}.{name}") if name == "interop" else getattr(module, name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jaxmatch` in a notebook adds the command as `%jaxmatch`."""
    from jaxmatch.cli import magic

    magic.register(shell)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
