"""Config and sweep files: found by name, loaded, and called with the options that they take."""

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.data.catalog import EMBEDDED_TASKS
from jaxmatch.errors import InputError, UnknownOption
from jaxmatch.plain_file import check_plain_file
from jaxmatch.settings import flatten
from jaxmatch.sweep.named_files import CONFIGS, SWEEPS, closest, find

MOST_BYTES_OF_A_FILE = 2**20  # of a config or sweep file, which Python compiles as a whole


@contextlib.contextmanager
def mistakes_of(path: Path, options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turns an exception of a config or sweep file into an `InputError` that names the file and, if known, the line.

    Arguments:
      path: of the file.
      options: values of the command line that are passed to the file. With any, an `InputError` that the file raises is
        about them, and passes unchanged.
    """
    try:
        yield
    except InputError as error:
        if error.path is not None or options:
            raise
        raise InputError(error.problem, path=path, remedy=error.remedy) from error
    except SyntaxError as error:
        raise InputError(f"{error.msg}", path=path, line=error.lineno, remedy="fix the file") from error
    except (Exception, SystemExit) as error:  # a file that ends the program would end it without a word
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == Path(path).resolve()]
        raise InputError(
            f"the file fails with {type(error).__name__}: {error}",
            path=path,
            line=lines[-1] if lines else None,
            remedy="fix the file",
        ) from error


def load_module(path: Path) -> ModuleType:
    """Runs a config or sweep file and returns it as a module.

    Raises:
      InputError: there is no such file, it is no plain file or has more than 1 MiB, or it fails while it runs.
    """
    path, remedy = Path(path), "give a file of configs/ or sweeps/, or one of your own"
    check_plain_file(path, remedy, MOST_BYTES_OF_A_FILE)
    if not path.exists():
        raise InputError("there is no such file", path=path, remedy=closest(path.stem, (SWEEPS, CONFIGS)) or remedy)
    specification = importlib.util.spec_from_file_location(f"jaxmatch_file_{path.stem}", path)
    if specification is None or specification.loader is None:
        raise InputError("this is not a Python file", path=path, remedy="a config or sweep file ends in .py")
    module = importlib.util.module_from_spec(specification)
    with mistakes_of(path):
        specification.loader.exec_module(module)
    return module


def load_named(name: str, remedy: str) -> ModuleType:
    """Imports a module that a command line names, of the working directory too, as `python -m` does.

    Raises:
      InputError: there is no such module (with this remedy), or it fails.
    """
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise InputError(f"there is no module {name!r}", remedy=remedy)
    with mistakes_of(Path(found.origin or name)):
        return importlib.import_module(name)


def called(module: ModuleType, name: str, options: Mapping[str, str], path: Path) -> Any:
    """What a function of a launcher's file returns for the options of a command line.

    Raises:
      InputError: the function takes no such option, or it fails.
    """
    function = getattr(module, name)
    with mistakes_of(path):
        if not callable(function):
            raise TypeError(f"{name} is {function!r}: make it a function")
        known = inspect.signature(function).parameters
    for option in options:
        if option not in known:
            raise UnknownOption(
                f"this file has no option --{option}",
                option=f"--{option}",
                known=known,
                path=path,
                remedy="leave it out",
            )
    with mistakes_of(path, options):
        return function(**options)


def config_file(path: str | Path) -> tuple[Path, dict[str, str]]:
    """The file and the options of a path or a name (named_files.py). Where there is no configs/re2_snli.py,
    it is configs/re2.py with dataset=snli.
    """
    path = find(path, (CONFIGS,))
    if not path.exists():
        for end in (place for place, letter in enumerate(path.stem) if letter == "_"):
            file = path.with_name(path.stem[:end] + path.suffix)
            if file.is_file():
                return file, {"dataset": path.stem[end + 1 :]}
    return path, {}


def load_config(path: str | Path, **options: str) -> ConfigDict:
    """The config that a file's `get_config()` returns.

    Arguments:
      path: the file, or a name such as "re2", "re2_snli" or "configs/re2_snli.py" (`config_file`).
      options: what `get_config()` is called with.

    Raises:
      InputError: there is no such file or function, or it fails, or it returns something else.
    """
    path, named = config_file(path)
    module = load_module(path)
    if not hasattr(module, "get_config"):
        raise InputError("the file has no get_config()", path=path, remedy="define one that returns a config")
    config = called(module, "get_config", named | options, path)
    if not isinstance(config, ConfigDict):
        raise InputError(f"get_config() returns a {type(config).__name__}", path=path, remedy="return a ConfigDict")
    return config


def known_data_sets(config: str) -> list[str]:
    """The data sets that a config of the package has settings for."""
    return sorted(load_module(find(config, (CONFIGS,))).DATA_SETS)


def model_settings(model: str, dataset: str, *more: str) -> dict[str, Any]:
    """The settings that turn a config into that of a model: its name, and those of its file in configs/ for a data set.

    If the file does not have the data set, the model has its default structure, and the settings in `more` are those of
    the data set that the file takes by default. Numbers of pairs (warmup, decay) are left out, since they follow the
    size of a data set. An embedded data set gets nothing in `more`: its generated pairs need other learning rates.

    Arguments:
      model: its name, which is also that of its file.
      dataset: a name of a data set.
      *more: prefixes of settings to take in addition to those of the model.
    """
    found: dict[str, Any] = {"model.name": model}
    if dataset in known_data_sets(model):
        known = flatten(load_config(model, dataset=dataset))
        return found | {key: value for key, value in known.items() if key.startswith(("model.", *more))}
    if more and dataset not in EMBEDDED_TASKS:
        known = flatten(load_config(model))
        found |= {key: value for key, value in known.items() if key.startswith(more) and not key.endswith("_samples")}
    return found
