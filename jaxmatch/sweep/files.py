"""Config and sweep files: found by name, loaded, and resolved with a command line to a sweep and its data.

`re2` is the name of configs/re2.py, and `quickstart` that of sweeps/quickstart.py. The folders configs/ and sweeps/ are
at the top of the source tree. An installed package has copies of them in jaxmatch/launchers/. A file in configs/ or
sweeps/ of the current folder takes precedence, so that edited copies count.
"""

import ast
import contextlib
import dataclasses
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

import jaxmatch
from jaxmatch.config.models import MODELS
from jaxmatch.config.settings import OWN_LAYOUT, flatten
from jaxmatch.data import catalog
from jaxmatch.errors import InputError, check_plain_file, nearest
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.sweep.sweep import Sweep

CONFIGS, SWEEPS = "configs", "sweeps"


def files(kind: str) -> dict[str, Path]:
    """Returns name -> file, for all files of a kind."""
    package = Path(jaxmatch.__file__).parent
    found: dict[str, Path] = {}
    for folder in (Path(kind), package / "launchers" / kind, package.parent / kind):
        for file in folder.glob("[!_.]*.py"):
            found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def configs() -> dict[str, str]:
    """Returns name -> title of the configs that `load_config` finds. `jaxmatch configs` also lists the sweeps."""
    return {name: title(file) for name, file in files(CONFIGS).items()}


def title(file: Path) -> str:
    """Reads the first paragraph of a file's docstring, as one line. Nothing is executed."""
    try:
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    except (OSError, ValueError, SyntaxError):
        return ""
    return " ".join(text.partition("\n\n")[0].split())


def find(path: str | Path, kinds: Sequence[str]) -> Path:
    """Finds the file of a path or a name.

    Arguments:
      path: a path, which is returned as it is, or a name. A path as in the source tree, such as configs/re2_snli.py, is
        looked up by its name if there is no such file. The name of a config may end in that of a data set (re2_snli);
        its file then does not exist (see `config_file`).
      kinds: `CONFIGS`, `SWEEPS`, or both, in the order in which they are searched.

    Raises:
      InputError: no file has this name.
    """
    path, known = Path(path), {kind: files(kind) for kind in (CONFIGS, SWEEPS)}
    of_tree = path.suffix == ".py" and path.parts[:-1] in ((CONFIGS,), (SWEEPS,)) and not path.exists()
    if not of_tree and (path.suffix or len(path.parts) > 1 or path.is_file()):
        return path
    name, kinds = path.stem, path.parts[:1] if of_tree else kinds
    for kind in kinds:
        if name in known[kind]:
            return known[kind][name]
    for config, _ in _with_data_set(name) if CONFIGS in kinds else ():
        if config in known[CONFIGS]:
            return known[CONFIGS][config].with_name(f"{name}.py")
    if of_tree:
        return path
    remedy = closest(name) or "jaxmatch configs lists the names"
    for kind, command in ((CONFIGS, "train"), (SWEEPS, "sweep")):
        if name in known[kind]:
            remedy = f"it is a {kind[:-1]}: jaxmatch {command} {name}"
    raise InputError(f"there is no file and no {' or '.join(kind[:-1] for kind in kinds)} {name!r}", remedy=remedy)


def _with_data_set(name: str) -> Iterator[tuple[str, str]]:
    """Yields the ways to read a name as that of a config and a data set: "re2_snli" as "re2" and "snli"."""
    words = name.split("_")
    for end in range(1, len(words)):
        yield "_".join(words[:end]), "_".join(words[end:])


def closest(name: str) -> str:
    """Returns `did you mean "…"?` with the closest name of a file, or "" if no name is close."""
    remedy = nearest(name, [*files(SWEEPS), *files(CONFIGS)])
    return remedy if remedy.endswith("?") else ""


@contextlib.contextmanager
def user_file_errors(path: Path, options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turns an exception of a config or sweep file into an `InputError` that names the file and, if known, the line.

    If the file was given options of the command line, its `InputError` is about them, and passes unchanged.
    """
    try:
        yield
    except InputError as error:
        if error.path is not None or options:
            raise
        raise InputError(error.problem, path=path, remedy=error.remedy) from error
    except SyntaxError as error:
        raise InputError(error.msg, path=path, line=error.lineno, remedy="fix the file") from error
    except (Exception, SystemExit) as error:  # SystemExit would end the program without a message
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
        problem = f"the file fails with {type(error).__name__}: {error}"
        raise InputError(problem, path=path, line=lines[-1] if lines else None, remedy="fix the file") from error


def load_module(path: Path) -> ModuleType:
    """Runs a config or sweep file and returns it as a module. Raises an `InputError` if it cannot be run, or fails."""
    remedy = "give a file of configs/ or sweeps/, or one of your own"
    check_plain_file(path, remedy)
    if not path.exists():
        raise InputError("there is no such file", path=path, remedy=closest(path.stem) or remedy)
    specification = importlib.util.spec_from_file_location(f"jaxmatch_file_{path.stem}", path)
    if specification is None or specification.loader is None:
        raise InputError("this is not a Python file", path=path, remedy="a config or sweep file ends in .py")
    module = importlib.util.module_from_spec(specification)
    with user_file_errors(path):
        specification.loader.exec_module(module)
    return module


def load_named(name: str, remedy: str) -> ModuleType:
    """Imports a module that a command line names. As with `python -m`, it may be in the working directory.

    Raises an `InputError` if the module does not exist (with `remedy`), or fails.
    """
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    with user_file_errors(Path(name)):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not f"{name}.".startswith(f"{error.name}."):  # the module imports something that is missing
                raise
    raise InputError(f"there is no module {name!r}", remedy=remedy)


def called(module: ModuleType, name: str, options: Mapping[str, str], path: Path, kind: type) -> Any:
    """Calls a function of a file with the options of a command line, and returns its result, a `kind`.

    Raises:
      InputError: there is no such function, it takes no such option, it fails, or it returns something else.
    """
    if not callable(function := getattr(module, name, None)):
        raise InputError(f"the file has no {name}()", path=path, remedy=f"define one that returns a {kind.__name__}")
    known = inspect.signature(function).parameters
    for word in (f"--{option.replace('_', '-')}" for option in options if option not in known):
        remedy = nearest(word, [f"--{name.replace('_', '-')}" for name in known]) if known else "leave it out"
        raise InputError(f"this file has no option {word}", path=path, remedy=remedy)
    with user_file_errors(path, options):
        result = function(**options)
    if not isinstance(result, kind):
        problem = f"{name}() returns a {type(result).__name__}"
        raise InputError(problem, path=path, remedy=f"return a {kind.__name__}")
    return result


def config_file(path: str | Path) -> tuple[Path, dict[str, str]]:
    """Returns the file and the options for a path or a name (`find`).

    If configs/re2_snli.py does not exist, it stands for configs/re2.py with dataset=snli.
    """
    path = find(path, (CONFIGS,))
    for config, data_set in () if path.exists() else _with_data_set(path.stem):
        if (file := path.with_name(config + path.suffix)).is_file():
            return file, {"dataset": data_set}
    return path, {}


def load_config(path: str | Path, **options: str) -> ConfigDict:
    """Returns the config of a file, or of a name such as "re2", "re2_snli" or "configs/re2_snli.py".

    Arguments:
      path: the file or the name (`config_file`).
      options: the options that the file's `get_config()` is called with.

    Raises:
      InputError: the file or the function does not exist, fails, or returns something that is not a config.
    """
    path, named = config_file(path)
    return called(load_module(path), "get_config", named | options, path, ConfigDict)


def data_title(dataset: str) -> str:
    """Returns the name of a data set in the title of a table."""
    return "own data" if dataset == catalog.OWN else dataset


def known_data_sets(config: str) -> list[str]:
    """Returns the names of the data sets that a config of the package has settings for."""
    return sorted(load_module(find(config, (CONFIGS,))).DATA_SETS)


def model_settings(model: str, dataset: str, *more: str) -> dict[str, Any]:
    """Returns the settings that turn a config into one of a model, from the model's file in configs/.

    These are its name, its settings for a data set, and the settings with the prefixes `more`. If the file does not
    have the data set, the model has its default structure, and the settings in `more` are those of the file's default
    data set. Numbers of pairs (warmup, decay) are then left out, because they depend on the size of a data set. An
    embedded data set gets no settings in `more`, because its generated pairs need other learning rates.
    """
    if dataset in known_data_sets(model):
        known = flatten(load_config(model, dataset=dataset))
        return {"model.name": model} | {key: known[key] for key in known if key.startswith(("model.", *more))}
    known = {} if not more or dataset in catalog.EMBEDDED_TASKS else flatten(load_config(model))
    own = {key: known[key] for key in known if key.startswith(more) and not key.endswith("_samples")}
    return {"model.name": model} | own


# Options of the command line that change a setting of the data.
OF_THE_DATA = {
    "data_directory": "data.directory",
    "vectors": "data.vectors",
    **{name: f"data.{name}" for name in OWN_LAYOUT},
}


def load_sweep(file: str | Path, options: Mapping[str, str]) -> Sweep:
    """Returns the sweep of a file with `get_sweep()`, or one with the single setting of `get_config()`."""
    file, named = config_file(file)
    module, options = load_module(file), named | dict(options)
    if hasattr(module, "get_timing"):
        raise InputError("this file describes a timing, not a training", path=file, remedy="use jaxmatch timing")
    if hasattr(module, "get_sweep"):
        return called(module, "get_sweep", options, file, Sweep)
    config = called(module, "get_config", options, file, ConfigDict)
    name = "_".join((file.stem, *options.values()))
    with user_file_errors(file):
        sweep = Sweep(name=name, config=config)
        about = f"{MODELS[config.model.name].title} on {data_title(config.data.name)}"
        layout = getattr(module, "TABLE", None) or TableLayout(title=about, rows=(), scores=())
        return dataclasses.replace(sweep, table=layout)
