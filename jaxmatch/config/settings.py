"""Scores; the settings of data, training, optimizer and execution; and configs made of all settings.

The dataclasses here and in models.py define the default, bounds, choices and meaning of each setting. The `ConfigDict`
of a config file is made from them (`default_config`), and values are checked against them (`check`).
"""

import ast
import contextlib
import dataclasses
import functools
import sys
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from jaxmatch.config.models import MODELS, MOST, ModelConfig, setting
from jaxmatch.errors import InputError, nearest, shown

if TYPE_CHECKING:  # the functions that make one import it, so that tables and help start without it
    from ml_collections import ConfigDict


@dataclasses.dataclass(frozen=True)
class Score:
    """A score of a model: its name in records and in `training.selection`, its title in tables, whether a higher score
    is better, and whether tables show it in percent.
    """

    name: str
    title: str
    higher_is_better: bool = True
    percent: bool = False


SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        Score("accuracy", "accuracy", percent=True),
        Score("f1", "F1", percent=True),
        Score("max_f1", "max F1", percent=True),
        Score("macro_f1", "macro F1", percent=True),
        Score("auc", "AUC", percent=True),
        Score("map", "MAP"),
        Score("mrr", "MRR"),
        Score("recall_at_1", "R@1"),
        Score("recall_at_2", "R@2"),
        Score("recall_at_5", "R@5"),
        Score("precision_at_1", "P@1"),
        Score("ndcg", "nDCG"),
        Score("pearson", "Pearson"),
        Score("spearman", "Spearman"),
        Score("mse", "MSE", higher_is_better=False),
        Score("loss", "loss", higher_is_better=False),
    )
}


# The settings of `DataConfig` for the layout of a user's own files. They decide which pairs are read.
OWN_LAYOUT = ("columns", "labels", "quoted", "split", "split_seed")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The data set, and how text becomes ids."""

    name: str = setting("embedded_inference", "name of the data set; own: a folder of your own")
    directory: str = setting("", "folder of the data, or one file of your own; empty: $JAXMATCH_DATA, for public data")
    task: Literal["", "classification", "regression", "ranking"] = setting("", "of your own data; empty: from columns")
    columns: str = setting("", "columns of your own data with other names, like text_a=question1,label=is_duplicate")
    labels: str = setting("", "names of the labels in your own data, like 0=different,1=same; empty: as they are")
    quoted: bool = setting(False, "whether your own TSV encloses texts in quotation marks, as CSV does")
    split: str = setting("", "shares of train, dev and test in one file of your own, like 0.8/0.1/0.1")
    split_seed: int = setting(0, "seed of the split", least=0)
    vectors: str = setting(
        "",
        "text file of word vectors, also as .gz or .zip; a path, or below the data directory; hashed: made from the "
        "spelling of words; none: for model.words=trained",
    )
    minimum_coverage: float = setting(0.1, "share of all tokens that must have a vector in the file", least=0, most=1)
    tokenizer: Literal["word", "whitespace", "characters", "tweet", "tweet_split"] = setting(
        "word",
        "how texts are split: at spaces, or by NLTK's tokenizer of words or tweets; `characters`: words, but Chinese, "
        "Japanese, Thai and the like into characters; `tweet_split`: also at hyphens and clitics, as RE2 for SciTail",
    )
    lowercase: bool = setting(True, "convert text to lower case")
    remove_punctuation: bool = setting(True, "drop tokens that are punctuation alone")
    minimum_count: int = setting(5, "keep words without a vector that occur at least this often", least=0)
    maximum_length: int = setting(0, "maximum number of tokens in a text; 0: no limit, as in the paper", least=0)
    truncation_side: Literal["right", "left"] = setting("right", "side on which longer texts are cut")
    drop_from_length: int = setting(0, "leave out training pairs with a text of this many tokens or more", least=0)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How long a run trains, and when it is scored. Times are counted in pairs, whatever the batch size."""

    batch_size: int = setting(128, "number of pairs in a training step", least=1)
    epochs: int = setting(30, "maximum number of passes over the training set", least=1)
    evaluate_every_samples: int = setting(0, "pairs between two dev scores; 0: one after every epoch", least=0)
    evaluate_each_epoch: bool = setting(False, "with evaluate_every_samples: also score after every epoch")
    late_from_samples: int = setting(0, "number of pairs after which evaluate_every_samples_late applies", least=0)
    evaluate_every_samples_late: int = setting(0, "its value after late_from_samples; 0: unchanged", least=0)
    patience_samples: int = setting(400_000, "stop after so many pairs without a better dev score; 0: never", least=0)
    minimum_samples: int = setting(0, "no early stopping before this many pairs", least=0)
    selection: str = setting("", "dev score that chooses the checkpoint; empty: as usual for the data", choices=SCORES)
    best_on_test: bool = setting(False, "also record the best score on TEST, in a column of its own")
    maximum_buckets: int = setting(10, "maximum number of padded lengths; each makes compilation longer", least=1)
    mix_lengths: bool = setting(False, "draw batches from pairs of all lengths; otherwise pairs of similar length")


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam and its schedule. All of these settings are traced: a grid over them compiles one program."""

    learning_rate: float = setting(1e-3, "learning rate of Adam, after warmup", least=0)
    learning_rate_floor: float = setting(6e-5, "learning rate at which warmup starts and decay ends", least=0)
    warmup_samples: int = setting(0, "number of pairs of linear warmup", least=0)
    decay_rate: float = setting(0.95, "factor by which the learning rate decays", least=0, most=1)
    decay_samples: int = setting(128_000, "number of pairs between two decays; 0: no decay", least=0)
    dropout_rate: float = setting(0.2, "rate of every dropout", least=0, most=0.999)
    l2_penalty: float = setting(0.0, "L2 penalty, added to the clipped gradient before Adam", least=0)
    gradient_clip: float = setting(5.0, "maximum global norm of the gradient; 0: no limit", least=0)


@dataclasses.dataclass(frozen=True)
class ExecutionConfig:
    """How runs are executed. These settings do not change a run's name. They can change results in the last bits."""

    evaluation_batch_size: int = setting(0, "pairs predicted at once for scores; 0: 512, on a CPU 32", least=0)
    checkpoint_seconds: float = setting(60.0, "seconds between two checkpoints", least=0)
    maximum_replicas: int = setting(0, "maximum number of runs trained at once; 0: as many as fit in memory", least=0)
    cache_directory: str = setting("", "folder of encoded data and compiled programs; empty: in the user's cache")


SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "training": TrainingConfig,
    "optimizer": OptimizerConfig,
    "execution": ExecutionConfig,
}
ADDED_DEFAULTS: dict[str, float] = {}  # dotted name of a setting that jaxmatch/extend.py added -> its default
# The end of an error about a name that a module outside the package may add (jaxmatch/extend.py).
OR_IMPORT = "; --import FILE loads one of your own"


def default_config(model: str = "re2") -> "ConfigDict":
    """Returns a locked config with every setting at its default, for a model of `MODELS`.

    Raises:
      InputError: the model does not exist.
    """
    from ml_collections import ConfigDict

    of_model = {"name": model, **dataclasses.asdict(model_config({"name": model}))}
    others = {name: dataclasses.asdict(section()) for name, section in SECTIONS.items()}
    return ConfigDict({"model": of_model, **others}).lock()


def model_config(settings: Mapping[str, Any]) -> ModelConfig:
    """Returns the dataclass for the `model` section of a config: a `name` of `MODELS`, and any fields of that model.

    Raises:
      InputError: the name or a field is unknown, or a value is not allowed.
    """
    fields = dict(settings)
    name = fields.pop("name", "re2")
    if not isinstance(name, str) or name not in MODELS:
        raise InputError(f"there is no model {shown(name)}", remedy=nearest(name, MODELS) + OR_IMPORT)
    if name == "re2":
        fields.pop("kernels", None)  # older versions wrote this field, which changed no result
    return check(MODELS[name], fields, "model")


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Flattens a config or a mapping: {"model": {"blocks": 2}} becomes {"model.blocks": 2}."""
    flat = {}
    for name, value in config.items():
        flat |= flatten(value, f"{prefix}{name}.") if hasattr(value, "items") else {prefix + name: value}
    return flat


def of_data_set(settings: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Returns the settings that a config file has for a data set, including `data.name`.

    Raises:
      InputError: the file has no settings for the data set.
    """
    if name not in settings:
        raise InputError(f"there is no setting for the data set {shown(name)}", remedy=nearest(name, settings))
    return {"data.name": name, **settings[name]}


_WIDEST = 999  # the widest convolution, wider than any model needs
# What `ast.literal_eval` raises about a text that it cannot evaluate, such as "{[]: 1}" or a thousand brackets.
NOT_A_LITERAL = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


def _parsed(value: Any, default: Any) -> Any:
    """Converts a value, or its text from a command line, to the type of the default if the conversion is exact."""
    if isinstance(value, str) and not isinstance(default, str):
        text = value.strip()
        try:
            value = ast.literal_eval(text.capitalize() if text.lower() in ("true", "false") else text)
        except NOT_A_LITERAL:
            return value  # `validate` raises the error
    if isinstance(value, list):
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        with contextlib.suppress(OverflowError):  # `validate` raises the error about a number that is too large
            return float(value)
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def with_overrides(config: "ConfigDict", overrides: Mapping[str, Any]) -> "ConfigDict":
    """Returns a locked copy of `config` with some settings changed.

    Arguments:
      config: the config to copy.
      overrides: dotted name -> value, or the text of a value. A different `model.name` replaces the model of the config
        by that model with its default settings, which the other overrides then change.

    Raises:
      InputError: a name is unknown (the error names the nearest known name), or a value is not allowed.
    """
    from ml_collections import ConfigDict

    changed = config.to_dict()
    name = overrides.get("model.name", config.model.name)
    if name != config.model.name:
        changed["model"] = default_config(name).model.to_dict()
    known = flatten(changed)
    for key, value in overrides.items():
        if key not in known:
            remedy = nearest(key, list(known)) + OR_IMPORT * key.startswith("optimizer.")
            raise InputError(f'there is no setting "config.{key}"', remedy=remedy)
        section, _, field = key.partition(".")
        changed[section][field] = _parsed(value, known[key])
    validate(changed)
    return ConfigDict(changed).lock()


def validate(config: Mapping[str, Any]) -> None:
    """Checks that a run can use all values of a config.

    Raises:
      InputError: a setting is missing, unknown or has a value that is not allowed. The error names the setting.
    """
    flat = flatten(config)
    sections = {"model": type(model_config({"name": flat.get("model.name", "re2")})), **SECTIONS}
    known = {"model.name", *(f"{name}.{field}" for name, section in sections.items() for field in _types(section))}
    if missing := known - flat.keys():
        raise InputError(f"the config lacks config.{min(missing)}", remedy="begin with default_config()")
    if unknown := flat.keys() - known:
        raise InputError(f'there is no setting "config.{min(unknown)}"', remedy=nearest(min(unknown), sorted(known)))
    for name, section in SECTIONS.items():
        check(section, config[name], name)
    model_config(config["model"])


def check(config: type, values: Mapping[str, Any], section: str) -> Any:
    """Returns an instance of `config`, a dataclass of jaxmatch/config, with the given values of its fields. An error
    calls it `section`: "model", "data", ...

    Raises:
      InputError: a field is unknown, or a value has the wrong type, is not one of the choices or is out of bounds; or
        the settings of a model do not fit together.
    """
    known = {field.name: field for field in dataclasses.fields(config)}
    for name, value in values.items():
        if name not in known:
            of = f"model {config.name!r}" if section == "model" else section
            raise InputError(f"{of} has no setting {shown(name)}", remedy=nearest(name, known))
        key = f"{section}.{name}"
        if remedy := _remedy(value, _types(config)[name], known[name]):
            raise InputError(f"{key} is {shown(value)}", remedy=remedy + OR_IMPORT * (key == "training.selection"))
    return config(**values)


def _remedy(value: Any, kind: Any, field: dataclasses.Field) -> str:
    """Returns what to give instead of a value that does not have the type, choices and bounds of its field, or ""."""
    bounds = field.metadata
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else bounds["choices"]
    if choices is not None:
        return "" if isinstance(value, str) and value in (field.default, *choices) else nearest(value, choices)
    if kind in (bool, str):
        return "" if isinstance(value, kind) else "give True or False" if kind is bool else "give a text"
    if kind not in (int, float):  # the one setting that is a number or a tuple
        widths = value if isinstance(value, tuple) else (value,)
        odd = all(type(width) is int and 1 <= width <= _WIDEST and width % 2 for width in widths)
        return "" if widths and odd else "give one odd number or several, like 3 or (1, 3)"
    what, least, most = "give a number", bounds["least"], bounds["most"]
    if kind is int:
        what, most = "give a whole number", most or MOST
    if type(value) not in (int, kind) or not abs(value) <= sys.float_info.max:
        return what if kind is int else "give a finite number"
    if least is not None and value < least:
        return f"{what} from {least} on"
    if most is not None and value > most:
        return f"{what} up to {most}"
    return "" if bounds["below"] is None or value < bounds["below"] else f"{what} below {bounds['below']}"


@functools.cache
def _types(config: type) -> dict[str, Any]:
    """Returns the type of each setting of a dataclass."""
    types = typing.get_type_hints(config)
    return {field.name: types[field.name] for field in dataclasses.fields(config)}
