"""Configs: every field with its default and its reason, overrides by name, and a lock against unknown names."""

import ast
import contextlib
import difflib
import functools
import importlib.util
import inspect
import math
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from jaxmatch import models
from jaxmatch.data.dataset import TASKS
from jaxmatch.data.tokens import TOKENIZERS, TRUNCATION_SIDES
from jaxmatch.errors import InputError
from jaxmatch.plain_file import check_plain_file
from jaxmatch.training.scores import HIGHER_IS_BETTER

SECTIONS = ("model", "data", "training", "optimizer", "execution")


def default_config(model: str = "re2") -> ConfigDict:
    """RE2 as released (2 blocks, 2 encoder layers, hidden 150); the files in configs/ change it for each data set.

    Arguments:
      model: another name of `jaxmatch.models.MODELS` gives a config of that model; its class says what its settings mean.

    Raises:
      InputError: there is no such model.
    """
    config = ConfigDict()

    config.model = ConfigDict()
    config.model.name = "re2"
    config.model.blocks = 2  # tuned from 1 to 3 in the paper
    config.model.encoder_layers = 2  # tuned from 1 to 3 in the paper
    config.model.hidden_size = 150  # section 3.2; some released settings use 200
    config.model.kernel_size = 3  # of the convolutional encoder
    config.model.encoder_activation = "gelu"  # section 3.2; or "relu", as in the TensorFlow code
    config.model.alignment = "linear"  # F of Eq. 2: "linear" or "identity"
    config.model.fusion = "full"  # Eq. 4: "full"; ablation: "simple"
    config.model.connection = "augmented"  # Eq. 1; or "augmented_running_sum", "vanilla", "vanilla_running_sum", "vanilla_projected", "none"
    config.model.prediction = "full"  # Eq. 5 "full", Eq. 6 "symmetric", Eq. 7 "simple"
    config.model.encoder_input = True  # False: the ablation "w/o enc-in"
    config.model.parallel_blocks = False  # True: the ablation "parallel blocks"
    config.model.dropout_placement = "released"  # or "every_layer", section 3.2: before every dense or convolution layer
    config.model.weight_normalization = "he"  # gain starts at the norm of its direction; "unit": at 1; "none"
    config.model.precision = "float32"  # or "highest", "tensorfloat32", "bfloat16" (activations, too; parameters stay float32)
    config.model.characters = "none"  # a word from its first 16 characters: "cnn" or "bilstm"; needs data.minimum_count = 1
    config.model.character_features = 100  # ESAN, section 2.1
    config.model.known_characters = 128
    config.model.tags = False  # the part of speech, by NLTK's tagger
    config.model.tag_features = 10  # as CSRAN's released run has
    config.model.known_tags = 50
    config.model.exact_match = False  # whether the other sentence has the word, too, whatever its case

    if model != "re2":
        config.model = ConfigDict(models.default_settings(model))

    config.data = ConfigDict()
    config.data.name = "embedded_inference"  # a name of the catalog, or "own"
    config.data.directory = ""  # the folder with the official folders; "": the environment variable JAXMATCH_DATA
    config.data.task = ""  # for own data: "classification", "regression" or "ranking"
    config.data.vectors = ""  # a GloVe-format file (.txt, .txt.gz, .zip), as a path or below the data directory
    config.data.tokenizer = "word"  # "whitespace", "word", "tweet", "tweet_split"
    config.data.lowercase = True
    config.data.remove_punctuation = True
    config.data.minimum_count = 5  # a word without a vector is kept from this count on
    config.data.maximum_length = 0  # 0: no limit, as in the paper
    config.data.truncation_side = "right"  # where longer texts lose tokens: at their end, or "left"

    config.training = ConfigDict()
    config.training.batch_size = 128
    config.training.epochs = 30
    config.training.evaluate_every_samples = 0  # 0: after every epoch
    config.training.evaluate_each_epoch = False  # True: after every epoch, too, where they are counted in pairs
    config.training.late_from_samples = 0  # once so many pairs are seen,
    config.training.evaluate_every_samples_late = 0  # every so many instead; 0: as before
    config.training.patience_samples = 400_000  # pairs without a better dev score before a run stops; 0: never
    config.training.minimum_samples = 0  # pairs before which patience stops no run
    config.training.selection = "accuracy"  # the dev score that chooses the checkpoint
    config.training.best_on_test = False  # also note the best TEST score, in a column of its own
    config.training.maximum_buckets = 10  # lengths that pairs are padded to; each is compiled once

    # What is traced: a grid over these compiles nothing more.
    config.optimizer = ConfigDict()
    config.optimizer.learning_rate = 1e-3
    config.optimizer.learning_rate_floor = 6e-5
    config.optimizer.warmup_samples = 0
    config.optimizer.decay_rate = 0.95
    config.optimizer.decay_samples = 128_000
    config.optimizer.dropout_rate = 0.2
    config.optimizer.weight_decay = 0.0
    config.optimizer.gradient_clip = 5.0

    # How it is run; none of it changes what a run is.
    config.execution = ConfigDict()
    config.execution.evaluation_batch_size = 0  # pairs answered at once for the scores; 0: 512, on a CPU 32
    config.execution.checkpoint_seconds = 60.0
    config.execution.maximum_replicas = 0  # runs trained at once; 0: as many as the memory holds
    config.execution.steps_at_once = 0  # training steps a device makes in one dispatch, at most; 0: 64, on a CPU 1
    config.execution.restack = True  # shrink the program when half of its runs have stopped
    config.execution.cache_directory = ""  # encoded data; "": below the user's cache folder
    return config.lock()


def nearest(name: str, known: list[str]) -> str:
    """A remedy that names the closest of the known names."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if not close and "." in name:  # the last part often says what was meant
        close = [k for k in known if k.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]][:1]
    return f'did you mean "{close[0]}"?' if close else f"known: {', '.join(known)}"


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"model": {"blocks": 2}} as {"model.blocks": 2}."""
    flat = {}
    for name, value in config.items():
        if isinstance(value, Mapping | ConfigDict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _converted(key: str, value: Any, default: Any) -> Any:
    """`value`, which may be text from a command line, as the type that the field has."""
    problem = f'config.{key} = {value!r} is not {"a number" if isinstance(default, int | float) else "of the right type"}'
    remedy = f"give something like {default!r}"
    if isinstance(value, str) and not isinstance(default, str):
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            lowered = {"true": True, "false": False}.get(value.strip().lower())
            if lowered is None:
                raise InputError(problem, remedy=remedy) from None
            value = lowered
    if key == "model.kernel_size":  # the one setting of two kinds: a number, or several; the model knows which will do
        return tuple(value) if isinstance(value, list) else value
    if isinstance(default, bool) or isinstance(value, bool):
        if not (isinstance(default, bool) and isinstance(value, bool)):
            raise InputError(f"config.{key} = {value!r} is not True or False" if isinstance(default, bool) else problem, remedy=remedy)
        return value
    if isinstance(default, float) and isinstance(value, int | float):
        return float(value)
    if isinstance(default, int):
        if isinstance(value, int):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise InputError(f"config.{key} = {value!r} is not a whole number", remedy=remedy)
    if not isinstance(value, type(default)):
        raise InputError(problem, remedy=remedy)
    return value


def with_overrides(config: ConfigDict, overrides: Mapping[str, Any]) -> ConfigDict:
    """A locked copy of `config` with some fields changed.

    Arguments:
      config: the base.
      overrides: dotted name -> value, or the text of a value. Another `model.name` puts that model in place of the config's, with
        its own settings at their defaults; the other overrides change these.

    Raises:
      InputError: an unknown name (with the nearest known one) or a value of the wrong type.
    """
    changed = ConfigDict(config.to_dict())
    name = overrides.get("model.name", changed.model.name)
    if name != changed.model.name:
        changed.model = ConfigDict(default_config(name).model.to_dict())
    known = flatten(changed)
    for key, value in overrides.items():
        if key not in known:
            raise InputError(f'there is no setting "config.{key}"', remedy=nearest(key, list(known)))
        section, _, field = key.rpartition(".")
        target = changed
        for part in section.split("."):
            target = target[part]
        with target.ignore_type():
            target[field] = _converted(key, value, known[key])
    validate(changed)
    return changed.lock()


MOST_BYTES_OF_A_FILE = 2**20  # of a config or sweep file, which Python compiles as a whole
MOST = 2**31 - 1  # what a number is held in on a device: samples, ids, sizes
_CHOICES = {
    "data.tokenizer": tuple(TOKENIZERS),
    "data.task": ("", *TASKS),
    "data.truncation_side": TRUNCATION_SIDES,
    "training.selection": tuple(HIGHER_IS_BETTER),
}
_AT_LEAST = {
    "training.batch_size": 1,
    "training.epochs": 1,
    "training.evaluate_every_samples": 0,
    "training.late_from_samples": 0,
    "training.evaluate_every_samples_late": 0,
    "training.patience_samples": 0,
    "training.minimum_samples": 0,
    "training.maximum_buckets": 1,
    "optimizer.learning_rate": 0,
    "optimizer.learning_rate_floor": 0,
    "optimizer.warmup_samples": 0,
    "optimizer.decay_rate": 0,
    "optimizer.decay_samples": 0,
    "optimizer.dropout_rate": 0,
    "optimizer.weight_decay": 0,
    "optimizer.gradient_clip": 0,
    "execution.evaluation_batch_size": 0,
    "execution.checkpoint_seconds": 0,
    "execution.maximum_replicas": 0,
    "execution.steps_at_once": 0,
}


@functools.cache  # a grid validates many configs
def _settings(model: str) -> list[str]:
    """The dotted names of all settings of a model's config."""
    return list(flatten(default_config(model)))


def validate(config: ConfigDict) -> None:
    """Refuses values that no run could use.

    Raises:
      InputError: names the field, its value and what it may be.
    """
    flat = flatten(config)
    expected = _settings(flat.get("model.name", "re2"))
    for key in expected:
        if key not in flat:
            raise InputError(f"the config lacks config.{key}", remedy="begin with default_config()")
    for key in flat:
        if key not in expected:
            raise InputError(f'there is no setting "config.{key}"', remedy=nearest(key, expected))
    for key, choices in _CHOICES.items():
        if key in flat and flat[key] not in choices:
            raise InputError(
                f'config.{key} = "{flat[key]}" is unknown', remedy=nearest(str(flat[key]), [choice for choice in choices if choice])
            )  # fmt: skip
    for key, value in flat.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"config.{key} = {value} is not a finite number", remedy="give one")
    for key, value in flat.items():
        if isinstance(value, int) and value > MOST:
            raise InputError(f"config.{key} = {value} is too large", remedy=f"it is at most {MOST}")
    for key, least in _AT_LEAST.items():
        if key in flat and not flat[key] >= least:
            raise InputError(f"config.{key} = {flat[key]} is too small", remedy=f"it is at least {least}")
    if not flat["optimizer.dropout_rate"] < 1:
        raise InputError(f"config.optimizer.dropout_rate = {flat['optimizer.dropout_rate']} leaves nothing", remedy="it is below 1")
    models.build(config.model, outputs=2)  # knows its own settings


@contextlib.contextmanager
def mistakes_of(path: Path, options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turns what a config or sweep file raises into one line that names the file and, where it is known, its line.

    Where options of a command line go into it, what it says of its own accord is of them, not of the file.
    """
    try:
        yield
    except InputError as error:
        if error.path is not None or options:
            raise
        raise InputError(error.problem, path=path, remedy=error.remedy) from error
    except SyntaxError as error:
        raise InputError(f"{error.msg}", path=path, line=error.lineno, remedy="mend the file") from error
    except (Exception, SystemExit) as error:  # a file that ends the program would end it without a word
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == Path(path).resolve()]
        raise InputError(
            f"the file fails with {type(error).__name__}: {error}",
            path=path,
            line=lines[-1] if lines else None,
            remedy="mend the file",
        ) from error


def load_module(path: Path) -> ModuleType:
    """Runs a config or sweep file and returns it as a module.

    Raises:
      InputError: there is no such file, it is no plain file or has more than 1 MiB, or it fails while it runs.
    """
    path, remedy = Path(path), "give a file of configs/ or sweeps/, or one of your own"
    check_plain_file(path, remedy, MOST_BYTES_OF_A_FILE)
    if not path.exists():
        raise InputError("there is no such file", path=path, remedy=remedy)
    specification = importlib.util.spec_from_file_location(f"jaxmatch_file_{path.stem}", path)
    if specification is None or specification.loader is None:
        raise InputError("this is not a Python file", path=path, remedy="a config or sweep file ends in .py")
    module = importlib.util.module_from_spec(specification)
    with mistakes_of(path):
        specification.loader.exec_module(module)
    return module


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
            raise InputError(f"this file has no option --{option}", path=path, remedy="leave it out")
    with mistakes_of(path, options):
        return function(**options)


def load_config(path: Path) -> ConfigDict:
    """The config that a file's `get_config()` returns.

    Raises:
      InputError: there is no such file or function, or it fails, or it returns something else.
    """
    module = load_module(path)
    if not hasattr(module, "get_config"):
        raise InputError("the file has no get_config()", path=path, remedy="define one that returns a config")
    with mistakes_of(path):
        config = module.get_config()
    if not isinstance(config, ConfigDict):
        raise InputError(f"get_config() returns a {type(config).__name__}", path=path, remedy="return a ConfigDict")
    return config
