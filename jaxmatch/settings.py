"""Configs: their defaults, overrides, and checks against the dataclasses of config/."""

import ast
import contextlib
import dataclasses
import functools
import sys
import typing
from collections.abc import Mapping
from typing import Any, Literal

from ml_collections import ConfigDict

from jaxmatch.config import MODELS, MOST, MOST_LAYERS, SECTIONS, WIDEST, ModelConfig
from jaxmatch.errors import InputError, nearest
from jaxmatch.printable import shown

# The end of an error about a name that a module outside the package may add (jaxmatch/extend.py).
OR_IMPORT = "; --import FILE loads one of your own"


def default_config(model: str = "re2") -> ConfigDict:
    """Returns a locked config with every setting at its default. The files in configs/ change it for each data set.

    Arguments:
      model: the name of the model, a key of `MODELS`.

    Raises:
      InputError: the model does not exist.
    """
    config = ConfigDict({"model": {"name": model, **dataclasses.asdict(model_config({"name": model}))}})
    for name, section in SECTIONS.items():
        config[name] = ConfigDict(dataclasses.asdict(section()))
    return config.lock()


def model_config(settings: Mapping[str, Any]) -> ModelConfig:
    """Returns the dataclass for the `model` section of a config.

    Arguments:
      settings: `name`, a key of `MODELS`, and any fields of that model.

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


def flatten(config: Mapping[str, Any] | ConfigDict, prefix: str = "") -> dict[str, Any]:
    """Flattens a config: {"model": {"blocks": 2}} becomes {"model.blocks": 2}."""
    flat = {}
    for name, value in config.items():
        if isinstance(value, Mapping | ConfigDict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def of_data_set(settings: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Returns the settings that a config file has for a data set, including `data.name`.

    Raises:
      InputError: the file has no settings for the data set.
    """
    if name not in settings:
        raise InputError(f"there is no setting for the data set {shown(name)}", remedy=nearest(name, settings))
    return {"data.name": name, **settings[name]}


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


def with_overrides(config: ConfigDict, overrides: Mapping[str, Any]) -> ConfigDict:
    """Returns a locked copy of `config` with some settings changed.

    Arguments:
      config: the config to copy.
      overrides: dotted name -> value, or the text of a value. A different `model.name` replaces the model of the config
        by that model with its default settings, which the other overrides then change.

    Raises:
      InputError: a name is unknown (the error names the nearest known name), or a value is not allowed.
    """
    changed = config.to_dict()
    name = overrides.get("model.name", config.model.name)
    if name != config.model.name:
        changed["model"] = default_config(name).model.to_dict()
    known = flatten(changed)
    for key, value in overrides.items():
        if key not in known:
            raise InputError(f'there is no setting "config.{key}"', remedy=nearest(key, list(known)))
        section, _, field = key.partition(".")
        changed[section][field] = _parsed(value, known[key])
    validate(changed)
    return ConfigDict(changed).lock()


@functools.cache  # a grid validates many configs
def _names(section: str, config: type) -> list[str]:
    """Returns the dotted names of a section's settings."""
    return [f"{section}.{field.name}" for field in dataclasses.fields(config)]


def validate(config: Mapping[str, Any]) -> None:
    """Checks that a run can use all values of a config.

    Raises:
      InputError: a setting is missing, unknown or has a value that is not allowed. The error names the setting, its
        value and the allowed values.
    """
    flat = flatten(config)
    model = type(model_config({"name": flat.get("model.name", "re2")}))
    expected = ["model.name", *_names("model", model)]
    for name, section in SECTIONS.items():
        expected += _names(name, section)
    for key in expected:
        if key not in flat:
            raise InputError(f"the config lacks config.{key}", remedy="begin with default_config()")
    for key in flat:
        if key not in expected:
            raise InputError(f'there is no setting "config.{key}"', remedy=nearest(key, expected))
    for name, section in SECTIONS.items():
        check(section, config[name], name)
    model_config(config["model"])


def check(config: type, values: Mapping[str, Any], section: str) -> Any:
    """Checks values against the fields of a dataclass.

    Arguments:
      config: one of the dataclasses of jaxmatch/config.
      values: field -> value; missing fields keep their defaults.
      section: the name of the section for error messages: "model", "data", ...

    Returns:
      An instance of `config`.

    Raises:
      InputError: a field is unknown, or a value has the wrong type, is not one of the choices or is out of bounds; or
        the settings of a model do not fit together.
    """
    known = {field.name: field for field in dataclasses.fields(config)}
    for name, value in values.items():
        if name not in known:
            of = f"model {config.name!r}" if section == "model" else section
            raise InputError(f"{of} has no setting {shown(name)}", remedy=nearest(name, known))
        _check_value(f"{section}.{name}", value, _types(config)[name], known[name])
    checked = config(**values)
    if isinstance(checked, ModelConfig) and checked.least_layers > MOST_LAYERS:
        raise InputError(
            f"the model has more than {MOST_LAYERS} layers", remedy="give fewer blocks, layers or kernel sizes"
        )
    if isinstance(checked, ModelConfig) and checked.problem:
        problem, remedy = checked.problem
        raise InputError(problem, remedy=remedy)
    return checked


def _check_value(key: str, value: Any, kind: Any, field: dataclasses.Field) -> None:
    """Checks that a value has the type of its field, and is its default, one of its choices or within its bounds."""
    bounds = field.metadata
    least, most, below = bounds["least"], bounds["most"] or MOST, bounds["below"]
    remedy = None
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else bounds["choices"]
    if choices is not None:
        if not isinstance(value, str) or value not in (field.default, *choices):
            remedy = nearest(value, choices)
    elif kind is bool:
        remedy = None if isinstance(value, bool) else "give True or False"
    elif kind is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or (least is not None and value < least):
            remedy = "give a whole number" + ("" if least is None else f" from {least} on")
        elif value > most:
            remedy = f"give a whole number up to {most}"
    elif kind is float:
        if type(value) not in (int, float) or not -sys.float_info.max <= value <= sys.float_info.max:
            remedy = "give a finite number"
        elif least is not None and value < least:
            remedy = f"give a number from {least} on"
        elif below is not None and value >= below:
            remedy = f"give a number below {below}"
        elif bounds["most"] is not None and value > bounds["most"]:
            remedy = f"give a number up to {bounds['most']}"
    elif kind is str:
        remedy = None if isinstance(value, str) else "give a text"
    else:  # the one setting that is a number or a tuple
        widths = value if isinstance(value, tuple) else (value,)
        if not widths or any(type(width) is not int or not 1 <= width <= WIDEST or width % 2 == 0 for width in widths):
            remedy = "give one odd number or several, like 3 or (1, 3)"
    if remedy:
        raise InputError(f"{key} is {shown(value)}", remedy=remedy)


@functools.cache
def _types(config: type) -> dict[str, Any]:
    return typing.get_type_hints(config)
