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

MOST_BYTES_OF_A_FILE = 2**20  # the limit for a config or sweep file, which Python compiles as a whole


@contextlib.contextmanager
def user_file_errors(path: Path, options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turns an exception of a config or sweep file into an `InputError` that names the file and, if known, the line.

    Arguments:
      path: the file.
      options: the values of the command line that are passed to the file. If there are any, an `InputError` that the
        file raises is about them, and passes unchanged.
    """
    try:
        yield
    except InputError as error:
        if error.path is not None or options:
            raise
        raise InputError(error.problem, path=path, remedy=error.remedy) from error
    except SyntaxError as error:
        raise InputError(f"{error.msg}", path=path, line=error.lineno, remedy="fix the file") from error
    except (Exception, SystemExit) as error:  # SystemExit would end the program without a message
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
      InputError: the file does not exist, is not a plain Python file of at most 1 MiB, or fails while it runs.
    """
    path, remedy = Path(path), "give a file of configs/ or sweeps/, or one of your own"
    check_plain_file(path, remedy, MOST_BYTES_OF_A_FILE)
    if not path.exists():
        raise InputError("there is no such file", path=path, remedy=closest(path.stem, (SWEEPS, CONFIGS)) or remedy)
    specification = importlib.util.spec_from_file_location(f"jaxmatch_file_{path.stem}", path)
    if specification is None or specification.loader is None:
        raise InputError("this is not a Python file", path=path, remedy="a config or sweep file ends in .py")
    module = importlib.util.module_from_spec(specification)
    with user_file_errors(path):
        specification.loader.exec_module(module)
    return module


def load_named(name: str, remedy: str) -> ModuleType:
    """Imports a module that a command line names. As with `python -m`, it may be in the working directory.

    Raises:
      InputError: the module does not exist (with `remedy`), or it fails.
    """
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    package, found = name.rpartition(".")[0], None
    with user_file_errors(Path(name)):
        try:
            if package.strip("."):  # else the name has no package, or is relative to an unknown one
                importlib.import_module(package)
        except ModuleNotFoundError as error:
            if not f"{name}.".startswith(f"{error.name}."):  # the package imports something that is missing
                raise
        else:
            with contextlib.suppress(ImportError, ValueError):  # the name is not that of a module
                found = importlib.util.find_spec(name)
    if found is None:
        raise InputError(f"there is no module {name!r}", remedy=remedy)
    with user_file_errors(Path(found.origin or name)):
        return importlib.import_module(name)


def called(module: ModuleType, name: str, options: Mapping[str, str], path: Path) -> Any:
    """Calls a function of a launcher's file with the options of a command line, and returns its result.

    Raises:
      InputError: the function takes no such option, or it fails.
    """
    function = getattr(module, name)
    with user_file_errors(path):
        if not callable(function):
            raise TypeError(f"{name} is {function!r}: make it a function")
        known = inspect.signature(function).parameters
    for option in options:
        if option not in known:
            raise UnknownOption(
                f"this file has no option --{option.replace('_', '-')}",
                option=f"--{option.replace('_', '-')}",
                known=known,
                path=path,
                remedy="leave it out",
            )
    with user_file_errors(path, options):
        return function(**options)


def config_file(path: str | Path) -> tuple[Path, dict[str, str]]:
    """Returns the file and the options for a path or a name (named_files.py).

    If configs/re2_snli.py does not exist, it stands for configs/re2.py with dataset=snli.
    """
    path = find(path, (CONFIGS,))
    if not path.exists():
        for end in (place for place, letter in enumerate(path.stem) if letter == "_"):
            file = path.with_name(path.stem[:end] + path.suffix)
            if file.is_file():
                return file, {"dataset": path.stem[end + 1 :]}
    return path, {}


def load_config(path: str | Path, **options: str) -> ConfigDict:
    """Loads a config file and returns the config from its `get_config()`.

    Arguments:
      path: the file, or a name such as "re2", "re2_snli" or "configs/re2_snli.py" (`config_file`).
      options: the options that `get_config()` is called with.

    Raises:
      InputError: the file or the function does not exist, fails, or returns something that is not a config.
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
    """Returns the names of the data sets that a config of the package has settings for."""
    return sorted(load_module(find(config, (CONFIGS,))).DATA_SETS)


def model_settings(model: str, dataset: str, *more: str) -> dict[str, Any]:
    """Returns the settings that turn a config into one of a model.

    These are the name of the model and its settings for a data set, from its file in configs/. If the file does not
    have the data set, the model has its default structure, and the settings in `more` are those of the file's default
    data set. Numbers of pairs (warmup, decay) are then left out, because they depend on the size of a data set. An
    embedded data set gets no settings in `more`, because its generated pairs need other learning rates.

    Arguments:
      model: the name of the model, which is also the name of its file.
      dataset: the name of a data set.
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
