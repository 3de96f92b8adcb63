"""Conversion of RE2 to and from its authors' PyTorch code (alibaba-edu/simple-effective-text-matching-pytorch).

A state dict maps the names of that code's parameters to arrays. The settings also have the names of that code:

    alignment 'linear' | 'identity', fusion 'full' | 'simple', connection 'aug' | 'residual' | 'none',
    prediction 'full' | 'symmetric' | 'simple', blocks, enc_layers, hidden_size, kernel_sizes, num_classes

Other settings in a checkpoint's arguments are ignored. PyTorch is not needed. In the names and comments below, "theirs"
is the authors' code and "ours" is this package.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.errors import InputError
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.inference.interop import torch_files
from jaxmatch.layers.core import column_norms
from jaxmatch.models import build
from jaxmatch.models.re2 import RE2

_EMBEDDING = "embedding.embedding.weight"

# The authors' code keeps a running sum of the outputs of all earlier blocks. Up to three blocks, it equals Eq. 1.
_CONNECTION_FROM = {"aug": "augmented_running_sum", "residual": "vanilla_running_sum", "none": "none"}
_CONNECTION_TO = {ours: theirs for theirs, ours in _CONNECTION_FROM.items()} | {
    "augmented": "aug",
    "vanilla": "none",
    "vanilla_projected": "none",
}
_FUSION = {"concatenation": "fusion1", "difference": "fusion2", "product": "fusion3", "output": "fusion"}

Path = tuple[str, ...]


def _layers(model: RE2) -> Iterator[tuple[Path, str]]:
    """Yields the path of each weight-normalized layer in our parameters and the prefix of its names in theirs."""
    for block in range(model.config.blocks):
        ours, theirs = f"blocks_{block}", f"blocks.{block}"
        for layer in range(model.config.encoder_layers):
            for which in range(len(model.config.kernel_sizes)):
                name = f"convolution_{layer}" if len(model.config.kernel_sizes) == 1 else f"convolution_{layer}_{which}"
                yield (ours, "encoder", name), f"{theirs}.encoder.encoders.{layer}.model.{which}.0"
        if model.config.alignment == "linear":
            yield (ours, "alignment", "projection"), f"{theirs}.alignment.projection.1.model.0"
        for name in _FUSION if model.config.fusion == "full" else ("output",):
            yield (ours, "fusion", name), f"{theirs}.fusion.{_FUSION[name]}.model.0"
    if model.config.connection == "vanilla_running_sum" and model.config.blocks > 1:
        yield ("connection", "projection"), "connection.linear.model.0"
    yield ("prediction", "hidden"), "prediction.dense.1.model.0"
    yield ("prediction", "output"), "prediction.dense.3.model.0"


def _temperatures(model: RE2) -> Iterator[tuple[Path, str]]:
    for block in range(model.config.blocks):
        yield (f"blocks_{block}", "alignment", "temperature"), f"blocks.{block}.alignment.temperature"


def model_of(settings: Mapping[str, Any]) -> RE2:
    """Builds our model with the settings of the authors' PyTorch code.

    Raises:
      InputError: a setting is missing or unknown.
    """
    ours = settings_of(settings, "kernel_sizes", _CONNECTION_FROM)
    return build({**ours, "kernel_size": tuple(ours["kernel_size"])}, outputs=settings["num_classes"])


def settings_of(settings: Mapping[str, Any], kernels: str, connections: Mapping[str, str]) -> dict[str, Any]:
    """Converts the settings of either of the authors' programs to our model's settings.

    Arguments:
      settings: the settings of the authors' program.
      kernels: the name of the setting for the widths of convolutions in that program.
      connections: name of a residual connection in that program -> its name here.

    Raises:
      InputError: a setting is missing or unknown.
    """
    same = ("alignment", "fusion", "connection", "prediction", "blocks", "hidden_size")
    missing = [name for name in (*same, "enc_layers", "num_classes", kernels) if name not in settings]
    if missing:
        raise InputError(
            f"the settings lack {', '.join(missing)}", remedy="give the settings the network was trained with"
        )
    if settings["connection"] not in connections:
        raise InputError(f"connection is {settings['connection']!r}", remedy="known: " + ", ".join(connections))
    return {
        "name": "re2",
        **{name: settings[name] for name in same},
        "connection": connections[settings["connection"]],
        "encoder_layers": settings["enc_layers"],
        "kernel_size": settings[kernels],
    }


def read_parameters(model: RE2, state_dict: Mapping[str, np.ndarray]) -> tuple[dict, np.ndarray]:
    """Reads the parameters of `model` and the word vectors <float32>[words, dimensions] from a state dict.

    The shapes are not checked; `check_shapes` does that.

    Raises:
      InputError: a parameter is missing or unknown.
    """
    unread = dict(state_dict)

    def read(name: str) -> np.ndarray:
        if name not in unread:
            raise InputError(f"the state dict lacks {name}", remedy="check that the settings are those of this network")
        return np.asarray(unread.pop(name), np.float32)

    vectors = read(_EMBEDDING)
    flat = {path: read(name) for path, name in _temperatures(model)}
    for path, name in _layers(model):
        # [out, in] -> [in, out] of a dense layer, [out, in, width] -> [width, in, out] of a convolution.
        flat[*path, "direction"] = read(f"{name}.weight_v").T
        flat[*path, "gain"] = read(f"{name}.weight_g").reshape(-1)
        flat[*path, "bias"] = read(f"{name}.bias")
    if model.config.connection == "vanilla_running_sum" and model.config.blocks == 1:
        # The authors' code has the projection of the embeddings even without a second block that uses it.
        unread = {name: value for name, value in unread.items() if not name.startswith("connection.linear.")}
    if unread:
        raise InputError(f"the state dict has {sorted(unread)[0]}, which a network with these settings does not have")
    return flax.traverse_util.unflatten_dict(flat), vectors


def check_shapes(model: RE2, params: dict, vectors: np.ndarray, table: str = _EMBEDDING) -> None:
    """Checks that the parameters have the shapes that the model needs.

    Arguments:
      model: the model.
      params: the parameter tree.
      vectors: the word vectors.
      table: the name of the word vectors, for error messages.

    Raises:
      InputError: the word vectors are not a matrix, or a parameter has another shape.
    """
    if vectors.ndim != 2:
        raise InputError(f"{table} has shape {vectors.shape}", remedy="give (words, dimensions)")
    sentence = {"ids": jax.ShapeDtypeStruct((1, 1), jnp.int32)}
    words = jax.ShapeDtypeStruct(vectors.shape, jnp.float32)
    own = jax.eval_shape(model.init, jax.random.key(0), sentence, sentence, words)["params"]
    given = flax.traverse_util.flatten_dict(params)
    for path, leaf in flax.traverse_util.flatten_dict(own).items():
        if given[path].shape != leaf.shape:
            raise InputError(
                f"{'/'.join(path)} has shape {given[path].shape}, not {leaf.shape}",
                remedy="check that the settings are those of this network",
            )


def re2_from_pytorch(state_dict: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> InferenceModel:
    """Converts a network of the authors' PyTorch code.

    Arguments:
      state_dict: name -> array of any float type, including the word vectors.
      settings: `alignment` ("linear" or "identity"), `fusion` ("full" or "simple"), `connection` ("aug", "residual" or
        "none"), `prediction` ("full", "symmetric" or "simple"), and the numbers `blocks`, `enc_layers`, `hidden_size`,
        `kernel_sizes` (a list) and `num_classes`. Other settings are ignored.

    Returns:
      The model with its parameters and word vectors, all float32.

    Raises:
      InputError: a setting is missing or unknown, or a parameter is missing or unknown, or its shape does not fit the
        settings.
    """
    model = model_of(settings)
    params, vectors = read_parameters(model, state_dict)
    check_shapes(model, params, vectors)
    return InferenceModel(model, params, vectors)


def re2_to_pytorch(trained: InferenceModel) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Converts an RE2 to a network of the authors' PyTorch code; the inverse of `re2_from_pytorch`.

    Arguments:
      trained: an RE2.

    Returns:
      state_dict: name -> <float32>, including the word vectors as "embedding.embedding.weight".
      settings: the settings that `re2_from_pytorch` takes, `num_vocab` and `embedding_dim`.

    Raises:
      InputError: the authors' code cannot represent this network.
    """
    model = trained.module
    if not isinstance(model, RE2):
        raise InputError(f"a {type(model).__name__} has no PyTorch layout", remedy="give an RE2")
    if model.takes_characters or model.token_features:
        raise InputError("the authors' code takes no characters or other features of words, and this network does")
    if model.config.parallel_blocks or not model.config.encoder_input:
        raise InputError("the authors' code has neither parallel blocks nor blocks without the encoder's input")
    if model.config.connection == "augmented" and model.config.blocks > 3:
        raise InputError(
            f"the authors' code connects {model.config.blocks} blocks in another way than Eq. 1",
            remedy="to convert the network, train it with the connection 'augmented_running_sum'",
        )
    if model.config.encoder_activation != "gelu":
        raise InputError(
            f"the convolutions of the authors' PyTorch code have GeLU, not {model.config.encoder_activation}"
        )
    if model.config.connection in ("vanilla", "vanilla_projected") and model.config.blocks > 1:
        raise InputError(
            f"the authors' PyTorch code has another residual connection than {model.config.connection!r}",
            remedy="to convert the network, train it with the connection 'vanilla_running_sum'",
        )
    flat = flax.traverse_util.flatten_dict(trained.params)
    state_dict = {_EMBEDDING: np.asarray(trained.vectors)}
    # A model without a temperature does not scale its attention scores: its temperature is 1.
    state_dict |= {name: np.asarray(flat.get(path, np.float32(1))) for path, name in _temperatures(model)}
    for path, name in _layers(model):
        if model.config.weight_normalization == "none":
            direction = flat[*path, "kernel"]
            gain = column_norms(direction)
        else:
            direction, gain = flat[*path, "direction"], flat[*path, "gain"]
        state_dict[f"{name}.weight_v"] = np.ascontiguousarray(np.asarray(direction).T)
        state_dict[f"{name}.weight_g"] = np.asarray(gain).reshape(-1, *[1] * (direction.ndim - 1))
        state_dict[f"{name}.bias"] = np.asarray(flat[*path, "bias"])
    words, dimensions = trained.vectors.shape
    connection = _CONNECTION_TO[model.config.connection]
    if connection == "residual" and model.config.blocks == 1:  # their residual would have weights, which are not used
        connection = "none"
    settings = {
        "alignment": model.config.alignment,
        "fusion": model.config.fusion,
        "connection": connection,
        "prediction": model.config.prediction,
        "blocks": model.config.blocks,
        "enc_layers": model.config.encoder_layers,
        "hidden_size": model.config.hidden_size,
        "kernel_sizes": list(model.config.kernel_sizes),
        "num_classes": model.outputs,
        "num_vocab": words,
        "embedding_dim": dimensions,
    }
    return state_dict, settings


def read_pytorch_checkpoint(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads a checkpoint of the authors' code (`best.pt`). PyTorch is not needed, and no code in the file is executed.

    Arguments:
      path: the file. It holds a dict of `state_dict` (whose `model` holds the parameters) and `args`.

    Returns:
      The state dict and the settings, as `re2_from_pytorch` takes them.

    Raises:
      InputError: the file is missing or damaged, or it is not a checkpoint of the authors' code.
    """
    checkpoint = torch_files.load(path)
    try:
        arrays = dict(checkpoint["state_dict"]["model"])
        settings = dict(vars(checkpoint["args"]))
        if not all(isinstance(value, np.ndarray) for value in arrays.values()):
            raise TypeError("a parameter is not a tensor")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"this is not a checkpoint of the authors' RE2 ({type(error).__name__}: {error})",
            path=path,
            remedy="give the best.pt that their training wrote",
        ) from error
    return arrays, settings
