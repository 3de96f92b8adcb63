"""Config and sweep files: found by name, loaded, and resolved with a command line to a sweep and its data.

`re2` is the name of configs/re2.py, and `quickstart` that of sweeps/quickstart.py. The folders configs/ and sweeps/ are
at the top of the source tree. An installed package has copies of them in jaxmatch/launchers/. A file in configs/ or
sweeps/ of the current folder takes precedence, so that edited copies count.
"""

import ast
import contextlib
import dataclasses
import importlib
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
from jaxmatch.baselines import named_floors
from jaxmatch.config.settings import OWN_LAYOUT, flatten, with_overrides
from jaxmatch.data import catalog, encoding
from jaxmatch.data.catalog import data_directory, vectors_file
from jaxmatch.data.encoding import EncodedData
from jaxmatch.data.text import LEAST_CHARACTERS, LEAST_TAGS
from jaxmatch.data.vectors import NO_VECTORS
from jaxmatch.devices import cache_folder
from jaxmatch.errors import InputError, UnknownOption, check_plain_file, did_you_mean
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.sweep.sweep import Sweep, changed, smoke_sweep

CONFIGS, SWEEPS = "configs", "sweeps"


def _folders(kind: str) -> list[Path]:
    """Returns the folders that are searched for files of a kind, in this order."""
    package = Path(jaxmatch.__file__).parent
    return [Path(kind), package / "launchers" / kind, package.parent / kind]


def files(kind: str) -> dict[str, Path]:
    """Returns name -> file, for all files of a kind."""
    found: dict[str, Path] = {}
    for folder in _folders(kind):
        for file in sorted(folder.glob("[!_.]*.py")):
            found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def configs() -> dict[str, str]:
    """Returns name -> title of the configs that `load_config` finds. `jaxmatch configs` also lists the sweeps."""
    return {name: title(file) for name, file in files(CONFIGS).items()}


def data_sets(file: Path) -> list[str]:
    """Reads the names of the data sets in a config's `DATA_SETS`. Nothing is executed."""
    for node in _parsed(file).body:
        if isinstance(node, ast.Assign) and [getattr(name, "id", "") for name in node.targets] == ["DATA_SETS"]:
            constants = [key.value for key in getattr(node.value, "keys", ()) if isinstance(key, ast.Constant)]
            return [name for name in constants if isinstance(name, str)]
    return []


def closest(name: str, kinds: Sequence[str]) -> str:
    """Returns `did you mean "…"?` with the closest name of a file, or "" if no name is close."""
    known = [each for kind in kinds for each in files(kind)]
    if CONFIGS in kinds:
        stems = [(stem, file) for stem, file in files(CONFIGS).items() if name.startswith(f"{stem}_")]
        known += [f"{stem}_{each}" for stem, file in stems for each in data_sets(file)]
    return did_you_mean(name, known)


def find(path: str | Path, kinds: Sequence[str]) -> Path:
    """Finds the file of a path or a name.

    Arguments:
      path: a path, or the name of a file. A config's name may end in the name of a data set: `re2_snli`. A path as in
        the source tree, such as configs/re2_snli.py, is looked up by its name if there is no file at the path.
      kinds: `CONFIGS`, `SWEEPS`, or both, in the order in which they are searched.

    Returns:
      The file. Any other path is returned unchanged, whether or not a file exists there.

    Raises:
      InputError: no file has this name.
    """
    path = Path(path)
    name = str(path)
    if path.suffix == ".py" and path.parts[:-1] in ((CONFIGS,), (SWEEPS,)) and not path.exists():
        return _named(path.stem, path.parts[:1]) or path
    if path.suffix or path.name != name or path.is_file():
        return path
    if file := _named(name, kinds):
        return file
    remedy = closest(name, kinds) or "jaxmatch configs lists the names"
    for kind, command in ((CONFIGS, "train"), (SWEEPS, "sweep")):
        if kind not in kinds and name in files(kind):
            remedy = f"it is a {kind[:-1]}: jaxmatch {command} {name}"
    raise InputError(f"there is no file and no {' or '.join(kind[:-1] for kind in kinds)} {name!r}", remedy=remedy)


def _named(name: str, kinds: Sequence[str]) -> Path | None:
    """Finds the file of a name, or None. A name that ends in a data set (re2_snli) gives a path that may not exist."""
    for kind in kinds:
        known = files(kind)
        if name in known:
            return known[name]
        for end in (place for place, letter in enumerate(name) if letter == "_" and kind == CONFIGS):
            file = known.get(name[:end])
            if file and name[end + 1 :] in (data_sets(file) or [name[end + 1 :]]):
                return file.with_name(f"{name}.py")
    return None


def title(file: Path) -> str:
    """Reads the first paragraph of a file's docstring, as one line. Nothing is executed."""
    return " ".join((ast.get_docstring(_parsed(file)) or "").partition("\n\n")[0].split())


def _parsed(file: Path) -> ast.Module:
    """Parses a file. The result is empty if the file cannot be read or parsed."""
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ast.Module([], [])


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
    """Returns the file and the options for a path or a name (`find`).

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
    return sorted(data_sets(find(config, (CONFIGS,))))


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
    if more and dataset not in catalog.EMBEDDED_TASKS:
        known = flatten(load_config(model))
        found |= {key: value for key, value in known.items() if key.startswith(more) and not key.endswith("_samples")}
    return found


# Options of the command line that change a setting of the data.
OF_THE_DATA = {
    "data_directory": "data.directory",
    "vectors": "data.vectors",
    **{name: f"data.{name}" for name in OWN_LAYOUT},
}


def resolve(
    file: Path,
    *,
    seeds: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    grid_overrides: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    floors: str | None = None,
    smoke: bool = False,
    command: str = "",
) -> Sweep:
    """Returns the sweep that a file and a command line describe together. See `launch.sweep` for the arguments."""
    options, overrides = dict(options or {}), dict(overrides or {})
    for option, setting in OF_THE_DATA.items():
        value = options.pop(option, None)
        if value is not None and not smoke:  # generated data needs none of them
            overrides[setting] = value
    if smoke:
        overrides = {name: value for name, value in overrides.items() if name not in OF_THE_DATA.values()}
    sweep = _load_sweep(Path(file), options)
    if smoke:  # these only select the generated data that resembles the user's
        hints = {key: overrides.pop(key) for key in ("data.task", "training.selection") if key in overrides}
        sweep = smoke_sweep(dataclasses.replace(sweep, config=with_overrides(sweep.config, hints)))
    sweep = dataclasses.replace(sweep, command=command)
    if floors is not None:
        sweep = dataclasses.replace(sweep, floors=named_floors(floors))
    return changed(sweep, seeds=seeds, overrides=overrides, grid_overrides=grid_overrides)


def _load_sweep(file: Path, options: Mapping[str, str]) -> Sweep:
    file, named = config_file(file)
    module, options = load_module(file), named | dict(options)
    if hasattr(module, "get_sweep"):
        sweep = called(module, "get_sweep", options, file)
        if not isinstance(sweep, Sweep):
            raise InputError(f"get_sweep() returns a {type(sweep).__name__}", path=file, remedy="return a Sweep")
        return sweep
    if hasattr(module, "get_timing"):
        raise InputError("this file describes a timing, not a training", path=file, remedy="use jaxmatch timing")
    if not hasattr(module, "get_config"):
        raise InputError("the file has neither get_sweep() nor get_config()", path=file, remedy="define one of them")
    name = "_".join((file.stem, *options.values()))
    layout = getattr(module, "TABLE", None) or TableLayout(title=name, rows=(), scores=())
    config = load_config(file, **options)
    with user_file_errors(file):
        return Sweep(name=name, config=config, grid={}, seeds=(0,), table=layout)


def data_settings(config: Mapping[str, Any]) -> encoding.DataSettings:
    """Returns the data settings of a run's config: its data section, and the word features that its model takes.

    Raises:
      InputError: the model's `known_characters` or `known_tags` is too small, or its words have no vectors and are not
        trained.
    """
    settings = dict(config["data"])
    settings["directory"] = data_directory(settings["name"], settings["directory"])
    settings["vectors"] = vectors_file(settings["vectors"], settings["directory"])
    trained = config["model"].get("words", "fixed") == "trained"
    if trained and not settings["vectors"] and settings["name"] not in catalog.EMBEDDED_TASKS:
        settings["vectors"] = NO_VECTORS
    if settings["vectors"] == NO_VECTORS and not trained:
        raise InputError(
            "data.vectors is 'none', and model.words is 'fixed': the model would see no word",
            remedy="train them with --config.model.words=trained, or use --vectors hashed",
        )
    return encoding.DataSettings(**settings, **_features(config["model"]))


def _features(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the word features that a model takes. A model without such settings takes no features."""
    found: dict[str, Any] = {}
    if model.get("characters", "none") != "none":
        found["characters"] = _enough(model, "known_characters", LEAST_CHARACTERS)
    if model.get("tags", False) and _enough(model, "known_tags", LEAST_TAGS):
        found["tags"] = True
    if model.get("exact_match", False):
        found["exact_match"] = True
    return found


def _enough(model: Mapping[str, Any], name: str, least: int) -> int:
    if model[name] < least:
        raise InputError(f"config.model.{name} = {model[name]} is too small", remedy=f"it is at least {least}")
    return model[name]


def prepare(config: Mapping[str, Any]) -> EncodedData:
    """Returns the encoded data of a run's config.

    Raises:
      InputError: files are missing or damaged, no vectors are given, or the model takes parts of speech and NLTK's
        tagger is not installed.
    """
    return encoding.prepare(data_settings(config), cache_folder(config["execution"]["cache_directory"]))
