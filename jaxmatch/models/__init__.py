"""The models, by the name a config gives them.

A model is a Flax linen module: `init` makes its parameters and `apply` is a pure function of them. It takes the table of word
vectors as an argument and never holds it, so that a thousand runs share one.
"""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax

from jaxmatch.data.readers.lines import shown
from jaxmatch.errors import InputError
from jaxmatch.layers.alignment import ALIGNMENTS
from jaxmatch.layers.augmentation import AUGMENTATIONS
from jaxmatch.layers.connection import CONNECTIONS
from jaxmatch.layers.convolution import ACTIVATIONS
from jaxmatch.layers.dropout import PLACEMENTS
from jaxmatch.layers.fusion import FUSIONS
from jaxmatch.layers.matmul import PRECISIONS
from jaxmatch.layers.perceptron import HIDDEN_LAYERS
from jaxmatch.layers.prediction import PREDICTIONS
from jaxmatch.layers.weights import WEIGHT_NORMALIZATIONS
from jaxmatch.layers.words import CHARACTERS
from jaxmatch.models.cafe import CAFE
from jaxmatch.models.csran import ALIGNED_LAYERS, CSRAN
from jaxmatch.models.esan import ESAN
from jaxmatch.models.re2 import RE2

MODELS = {"re2": RE2, "esan": ESAN, "csran": CSRAN, "cafe": CAFE}

_CHOICES = {
    "alignment": ALIGNMENTS,
    "encoder_activation": ACTIVATIONS,
    "fusion": FUSIONS,
    "connection": CONNECTIONS,
    "prediction": PREDICTIONS,
    "dropout_placement": PLACEMENTS,
    "weight_normalization": WEIGHT_NORMALIZATIONS,
    "precision": PRECISIONS,
    "augmentation": AUGMENTATIONS,
    "characters": CHARACTERS,
    "head": HIDDEN_LAYERS,
    "aligned_layers": ALIGNED_LAYERS,
}
# Beyond any model, and within what can be traced.
_MOST_LAYERS, _MOST_NUMBERS, _MOST_WIDTH = 1000, 1 << 21, 999
_COUNTS = {
    "blocks": 1,
    "encoder_layers": 1,
    "hidden_size": 1,
    "alignment_layers": 1,
    "stacked_layers": 1,
    "aggregation_layers": 1,
    "highway_layers": 0,
    "factors": 1,
    "head_layers": 1,
    "head_size": 1,
    "character_features": 1,
    "known_characters": 2,
    "tag_features": 1,
    "known_tags": 2,
}


def _nearest(name: object, known) -> str:
    near = difflib.get_close_matches(str(name)[:99], [str(one) for one in known], n=1)
    return f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(str(one) for one in known)


def _kernel_sizes(value: Any, hidden_size: int) -> tuple[int, ...]:
    sizes = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not sizes or any(type(size) is not int or not 1 <= size <= _MOST_WIDTH or size % 2 == 0 for size in sizes):
        raise InputError(f"model.kernel_size is {shown(value)}", remedy="give one odd number or several, like 3 or (1, 3)")
    if hidden_size % len(sizes):
        raise InputError(
            f"model.hidden_size {hidden_size} cannot be shared by {len(sizes)} kernel sizes",
            remedy=f"give a hidden size that {len(sizes)} divides",
        )
    return sizes


def _settings(model: type[nn.Module]) -> dict[str, Any]:
    """The fields that a config may set, with their defaults."""
    fields = {field.name: field.default for field in dataclasses.fields(model)}
    return {name: default for name, default in fields.items() if name not in ("parent", "name", "outputs")}


def default_settings(name: str) -> dict[str, Any]:
    """The `model` part of a config with every field at its default.

    Raises:
      InputError: on an unknown name.
    """
    if name not in MODELS:
        raise InputError(f"there is no model {shown(name)}", remedy=_nearest(name, MODELS))
    return {"name": name, **_settings(MODELS[name])}


def build(settings: Mapping[str, Any], *, outputs: int) -> nn.Module:
    """Makes the model that a config's `model` part describes.

    Arguments:
      settings: `name`, a key of `MODELS`, and any of that model's fields; the rest keep their defaults.
      outputs: number of classes, or 1 in regression.

    Raises:
      InputError: on an unknown name, field or value.
    """
    fields = dict(settings)
    name = fields.pop("name", "re2")
    if not isinstance(name, str) or name not in MODELS:
        raise InputError(f"there is no model {shown(name)}", remedy=_nearest(name, MODELS))
    model = MODELS[name]
    known = _settings(model)
    for field, value in fields.items():
        if field not in known:
            raise InputError(f"model {name!r} has no setting {shown(field)}", remedy=_nearest(field, known))
        if isinstance(known[field], bool) and not isinstance(value, bool):
            raise InputError(f"model.{field} is {shown(value)}", remedy="give True or False")
        if isinstance(known[field], float) and not (type(value) in (int, float) and math.isfinite(value)):
            raise InputError(f"model.{field} is {shown(value)}", remedy="give a finite number")
        if field in _CHOICES and (not isinstance(value, str) or value not in _CHOICES[field]):
            raise InputError(f"model.{field} is {shown(value)}", remedy=_nearest(value, _CHOICES[field]))
        least = _COUNTS.get(field)
        if least is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise InputError(f"model.{field} is {shown(value)}", remedy=f"give a whole number from {least} on")
        most = _MOST_LAYERS if field.endswith(("blocks", "_layers")) else _MOST_NUMBERS
        if least is not None and value > most:
            raise InputError(f"model.{field} is {shown(value)}", remedy=f"give a whole number up to {most}")
    if "kernel_size" in fields:
        fields["kernel_size"] = _kernel_sizes(fields["kernel_size"], fields.get("hidden_size", model.hidden_size))
    module = model(outputs=outputs, **fields)
    if least_layers(module) > _MOST_LAYERS:
        raise InputError(f"the model has more than {_MOST_LAYERS} layers", remedy="give fewer blocks, layers or kernel sizes")
    return module


def least_layers(module: nn.Module) -> int:
    """How many layers a model has at least, each of which has parameters of its own; nothing is traced for it."""
    if isinstance(module, RE2):
        return module.blocks * module.encoder_layers * len(module.kernel_size)
    return sum(getattr(module, field) for field in _COUNTS if field.endswith("_layers") and hasattr(module, field))


def count_parameters(params: Any) -> int:
    """How many numbers are trained; of one run, not of a cohort's stack."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
