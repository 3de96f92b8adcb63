"""Configs made, changed and held to the dataclasses of config/."""

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

# For what a module outside the package may have added (jaxmatch/extend.py).
OR_IMPORT = "; --import FILE loads one of your own"


def default_config(model: str = "re2") -> ConfigDict:
    """The config with every setting at its default, locked; the files in configs/ change it for each data set.

    Arguments:
      model: a key of `MODELS`.

    Raises:
      InputError: there is no such model.
    """
    config = ConfigDict({"model": {"name": model, **dataclasses.asdict(model_config({"name": model}))}})
    for name, section in SECTIONS.items():
        config[name] = ConfigDict(dataclasses.asdict(section()))
    return config.lock()


def model_config(settings: Mapping[str, Any]) -> ModelConfig:
    """The dataclass of a config's `model` part: `name`, a key of `MODELS`, and any of that model's fields.

    Raises:
      InputError: on an unknown name, field or value.
    """
    fields = dict(settings)
    name = fields.pop("name", "re2")
    if not isinstance(name, str) or name not in MODELS:
        raise InputError(f"there is no model {shown(name)}", remedy=nearest(name, MODELS) + OR_IMPORT)
    if name == "re2":
        fields.pop("kernels", None)  # older versions wrote it; it changed no result
    return check(MODELS[name], fields, "model")


def flatten(config: Mapping[str, Any] | ConfigDict, prefix: str = "") -> dict[str, Any]:
    """{"model": {"blocks": 2}} as {"model.blocks": 2}."""
    flat = {}
    for name, value in config.items():
        if isinstance(value, Mapping | ConfigDict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def of_data_set(settings: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """The settings that a config file has for a data set, its name among them.

    Raises:
      InputError: it has none.
    """
    if name not in settings:
        raise InputError(f"there is no setting for the data set {shown(name)}", remedy=nearest(name, settings))
    return {"data.name": name, **settings[name]}


def _parsed(value: Any, default: Any) -> Any:
    """A value, or its text from a command line, as the type of the default where that loses nothing."""
    if isinstance(value, str) and not isinstance(default, str):
        text = value.strip()
        try:
            value = ast.literal_eval(text.capitalize() if text.lower() in ("true", "false") else text)
        except (ValueError, SyntaxError):
            return value  # `validate` says what it may be
    if isinstance(value, list):
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        with contextlib.suppress(OverflowError):  # `validate` says that it is too large
            return float(value)
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def with_overrides(config: ConfigDict, overrides: Mapping[str, Any]) -> ConfigDict:
    """A locked copy of `config` with some fields changed.

    Arguments:
      config: the base.
      overrides: dotted name -> value, or the text of a value. Another `model.name` puts that model in place of the
        config's, with its own settings at their defaults; the other overrides change these.

    Raises:
      InputError: an unknown name (with the nearest known one) or a value of the wrong type.
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
    """The dotted names of a section's settings."""
    return [f"{section}.{field.name}" for field in dataclasses.fields(config)]


def validate(config: Mapping[str, Any]) -> None:
    """Refuses values that no run could use.

    Raises:
      InputError: names the field, its value and what it may be.
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
    """Holds values to a dataclass.

    Arguments:
      config: one of the dataclasses of jaxmatch/config.
      values: field -> value; missing ones keep their defaults.
      section: what the fields are called after: "model", "data", ...

    Returns:
      An instance of `config`.

    Raises:
      InputError: on an unknown field or a value that is not of its type, none of its choices, or beyond its bounds.
    """
    known = {field.name: field for field in dataclasses.fields(config)}
    for name, value in values.items():
        if name not in known:
            of = f"model {config.name!r}" if section == "model" else section
            raise InputError(f"{of} has no setting {shown(name)}", remedy=nearest(name, known))
        _check_value(f"{section}.{name}", value, _types(config)[name], known[name].metadata)
    checked = config(**values)
    if isinstance(checked, ModelConfig) and checked.least_layers > MOST_LAYERS:
        raise InputError(
            f"the model has more than {MOST_LAYERS} layers", remedy="give fewer blocks, layers or kernel sizes"
        )
    if isinstance(checked, ModelConfig) and checked.problem:
        problem, remedy = checked.problem
        raise InputError(problem, remedy=remedy)
    return checked


def _check_value(key: str, value: Any, kind: Any, bounds: Mapping[str, Any]) -> None:
    """Refuses a value that is not of its field's type, none of its choices, or beyond its bounds."""
    least, most, below = bounds["least"], bounds["most"] or MOST, bounds["below"]
    remedy = None
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else bounds["choices"]
    if choices is not None:
        if not isinstance(value, str) or value not in choices:
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
    else:  # the one setting of two kinds
        widths = value if isinstance(value, tuple) else (value,)
        if not widths or any(type(width) is not int or not 1 <= width <= WIDEST or width % 2 == 0 for width in widths):
            remedy = "give one odd number or several, like 3 or (1, 3)"
    if remedy:
        raise InputError(f"{key} is {shown(value)}", remedy=remedy)


@functools.cache
def _types(config: type) -> dict[str, Any]:
    return typing.get_type_hints(config)
