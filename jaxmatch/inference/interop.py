"""Conversion of models: RE2 from its authors' PyTorch and TensorFlow code, and back to PyTorch.

PyTorch: alibaba-edu/simple-effective-text-matching-pytorch. TensorFlow: hitvoice/RE2, the authors' first code, which
produced the paper's results. A state dict, or a mapping of variables, maps the names of that code's parameters to
arrays. The settings also have the names of that code:

    alignment 'linear' | 'identity', fusion 'full' | 'simple', connection 'aug' | 'residual' | 'none',
    prediction 'full' | 'symmetric' | 'simple', blocks, enc_layers, hidden_size, num_classes,
    kernel_sizes (PyTorch, a list) or kernel_size (TensorFlow)

Other settings are ignored. The TensorFlow code differs from the PyTorch code: convolutions have ReLU, a residual
connection maps a block's output to the size of its input, embeddings come before the residual part, and a * b comes
before a - b. Below, "theirs" is the authors' code and "ours" is this package.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.inference.matcher import InferenceModel
from jaxmatch.layers.core import column_norms
from jaxmatch.models import build
from jaxmatch.models.re2 import RE2

__all__ = ["re2_from_pytorch", "re2_from_tensorflow", "re2_to_pytorch", "read_pytorch_checkpoint"]

_OTHER_SETTINGS = "check that the settings are those of this network"

Path = tuple[str, ...]
# The sizes of the parts of a layer's inputs in the authors' order, and the indices of these parts in our order.
Reordering = tuple[tuple[int, ...], tuple[int, ...]]


class _Names(NamedTuple):
    """The names of parameters in one of the authors' programs; those of a layer are its weight, gain and bias."""

    embedding: str
    temperature: str
    layer: tuple[str, str, str]


_PYTORCH = _Names(
    "embedding.embedding.weight", "blocks.{}.alignment.temperature", ("{}.weight_v", "{}.weight_g", "{}.bias")
)
_TENSORFLOW = _Names(
    "embedding/embedding_matrix", "block-{}/alignment/temperature", ("{}/weight", "{}/weight_g", "{}/bias")
)
# The authors' code keeps a running sum of the outputs of all earlier blocks. Up to three blocks, it equals Eq. 1.
_PYTORCH_CONNECTIONS = {"aug": "augmented_running_sum", "residual": "vanilla_running_sum", "none": "none"}
_TENSORFLOW_CONNECTIONS = {"aug": "augmented_running_sum", "residual": "vanilla_projected", "none": "none"}
_CONNECTION_TO = {ours: theirs for theirs, ours in _PYTORCH_CONNECTIONS.items()} | {"augmented": "aug"}
_PYTORCH_FUSION = {"concatenation": "fusion1", "difference": "fusion2", "product": "fusion3", "output": "fusion"}
_TENSORFLOW_FUSION = {"concatenation": "orig", "difference": "sub", "product": "mul", "output": "proj"}


def _model(settings: Mapping[str, Any], kernels: str, connections: Mapping[str, str], **more: str) -> RE2:
    """Builds our model with the settings of one of the authors' programs; `kernels`: its name for the kernel sizes."""
    same = ("alignment", "fusion", "connection", "prediction", "blocks", "hidden_size")
    if missing := [name for name in (*same, "enc_layers", "num_classes", kernels) if name not in settings]:
        remedy = "give the settings the network was trained with"
        raise InputError(f"the settings lack {', '.join(missing)}", remedy=remedy)
    if settings["connection"] not in connections:
        raise InputError(f"connection is {settings['connection']!r}", remedy="known: " + ", ".join(connections))
    sizes = settings[kernels]
    ours = {
        **{name: settings[name] for name in same},
        "connection": connections[settings["connection"]],
        "encoder_layers": settings["enc_layers"],
        "kernel_size": tuple(sizes) if isinstance(sizes, list) else sizes,
    }
    return build({"name": "re2", **ours, **more}, outputs=settings["num_classes"])


def _pytorch_layers(model: RE2) -> Iterator[tuple[Path, str, None]]:
    """Yields the path of each weight-normalized layer in our tree and the prefix of its names in theirs."""
    config = model.config
    for block in range(config.blocks):
        ours, theirs = f"blocks_{block}", f"blocks.{block}"
        for layer in range(config.encoder_layers):
            for which in range(len(config.kernel_sizes)):
                name = f"convolution_{layer}" if len(config.kernel_sizes) == 1 else f"convolution_{layer}_{which}"
                yield (ours, "encoder", name), f"{theirs}.encoder.encoders.{layer}.model.{which}.0", None
        if config.alignment == "linear":
            yield (ours, "alignment", "projection"), f"{theirs}.alignment.projection.1.model.0", None
        for name in _PYTORCH_FUSION if config.fusion == "full" else ("output",):
            yield (ours, "fusion", name), f"{theirs}.fusion.{_PYTORCH_FUSION[name]}.model.0", None
    if config.connection == "vanilla_running_sum" and config.blocks > 1:
        yield ("connection", "projection"), "connection.linear.model.0", None
    yield ("prediction", "hidden"), "prediction.dense.1.model.0", None
    yield ("prediction", "output"), "prediction.dense.3.model.0", None


def _tensorflow_layers(model: RE2, dimensions: int) -> Iterator[tuple[Path, str, Reordering | None]]:
    """Yields the path of each weight-normalized layer in our tree, its scope in theirs and the order of its inputs."""
    config, hidden = model.config, model.config.hidden_size
    for block in range(config.blocks):
        ours, theirs = f"blocks_{block}", f"block-{block}"
        inputs = encoded = both = None
        if block > 0 and config.connection == "augmented_running_sum":
            # Theirs: embeddings, residual, encoded. Ours: residual, embeddings, encoded.
            inputs = (dimensions, hidden), (1, 0)
            encoded = (dimensions, hidden, hidden), (1, 0, 2)
            both = (dimensions, hidden, hidden) * 2, (1, 0, 2, 4, 3, 5)
        for layer in range(config.encoder_layers):
            scope = f"{theirs}/encoder/cnn_{layer}"
            yield (ours, "encoder", f"convolution_{layer}"), scope, None if layer else inputs
        if config.alignment == "linear":
            yield (ours, "alignment", "projection"), f"{theirs}/alignment/proj/dense", encoded
        if config.fusion == "full":
            for name, scope in _TENSORFLOW_FUSION.items():
                yield (ours, "fusion", name), f"{theirs}/align/{scope}", None if name == "output" else both
        else:
            yield (ours, "fusion", "output"), f"{theirs}/align/dense", both
        if block > 0 and config.connection == "vanilla_projected" and hidden != dimensions:
            yield ("connection", f"projection_{block}"), f"{theirs}/residual_projection", None
    # Theirs: a, b, a * b, a - b. Ours: a, b, a - b, a * b.
    pooled = ((hidden,) * 4, (0, 1, 3, 2)) if config.prediction != "simple" else None
    yield ("prediction", "hidden"), "prediction/dense_1", pooled
    yield ("prediction", "output"), "prediction/dense_2", None


def _converted(
    model: RE2, arrays: Mapping[str, Any], names: _Names, layers: Iterable[tuple[Path, str, Reordering | None]]
) -> InferenceModel:
    """Reads the parameters and the word vectors of a model from the arrays of one of the authors' programs."""
    unread = dict(arrays)

    def read(name: str) -> np.ndarray:
        if name not in unread:
            raise InputError(f"the network lacks {name}", remedy=_OTHER_SETTINGS)
        return np.asarray(unread.pop(name), np.float32)

    vectors = read(names.embedding)
    flat: dict[Path, np.ndarray] = {}
    for block in range(model.config.blocks):
        flat[f"blocks_{block}", "alignment", "score_scale"] = read(names.temperature.format(block))
    for path, name, order in layers:
        weight, gain, bias = (read(each.format(name)) for each in names.layer)
        if names is _PYTORCH:  # [out, in] -> [in, out] of a dense layer, [out, in, width] -> [width, in, out]
            weight = weight.T
        elif order is not None and weight.shape[-2] == sum(order[0]):
            parts = np.split(weight, np.cumsum(order[0])[:-1], axis=-2)
            weight = np.concatenate([parts[place] for place in order[1]], axis=-2)
        flat[*path, "direction"] = weight
        flat[*path, "gain"], flat[*path, "bias"] = gain.reshape(-1), bias
    if unread:
        raise InputError(f"the network has {sorted(unread)[0]}, which a network with these settings does not have")
    sentence, words = {"ids": jax.ShapeDtypeStruct((1, 1), jnp.int32)}, jax.ShapeDtypeStruct(vectors.shape, jnp.float32)
    own = jax.eval_shape(model.init, jax.random.key(0), sentence, sentence, words)["params"]
    for path, leaf in flax.traverse_util.flatten_dict(own).items():
        if flat[path].shape != leaf.shape:
            problem = f"{'/'.join(path)} has shape {flat[path].shape}, not {leaf.shape}"
            raise InputError(problem, remedy=_OTHER_SETTINGS)
    return InferenceModel(model, flax.traverse_util.unflatten_dict(flat), vectors)


def re2_from_pytorch(state_dict: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> InferenceModel:
    """Converts a network of the authors' PyTorch code to a model with float32 parameters and word vectors.

    Arguments:
      state_dict: name -> array of any float type, including the word vectors.
      settings: alignment, fusion, connection, prediction, blocks, enc_layers, hidden_size, num_classes, kernel_sizes.

    Raises:
      InputError: a setting or a parameter is missing or unknown, or the shape of one does not fit the settings.
    """
    model = _model(settings, "kernel_sizes", _PYTORCH_CONNECTIONS)
    if model.config.connection == "vanilla_running_sum" and model.config.blocks == 1:
        # The authors' code has the projection of the embeddings even without a second block that uses it.
        state_dict = {name: value for name, value in state_dict.items() if not name.startswith("connection.linear.")}
    return _converted(model, state_dict, _PYTORCH, _pytorch_layers(model))


def re2_from_tensorflow(variables: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> InferenceModel:
    """Converts a network of the authors' TensorFlow code, as `re2_from_pytorch` does.

    Arguments:
      variables: name -> array of any float type, as `tf.train.load_checkpoint` reads them, including the word vectors.
        Variables of the optimizer (`global_step`, `lr`, those of Adam) are ignored.
      settings: as in `re2_from_pytorch`, but kernel_size.
    """
    relu = {"encoder_activation": "relu", "weight_normalization": "unit"}
    model = _model(settings, "kernel_size", _TENSORFLOW_CONNECTIONS, **relu)
    ignored = {"global_step", "lr", "beta1_power", "beta2_power"}
    ignored |= {name for name in variables if name.endswith(("/Adam", "/Adam_1"))}
    kept = {name: value for name, value in variables.items() if name not in ignored}
    dimensions = np.shape(kept.get(_TENSORFLOW.embedding, ()))[-1:] or (0,)
    return _converted(model, kept, _TENSORFLOW, _tensorflow_layers(model, *dimensions))


def re2_to_pytorch(trained: InferenceModel) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Converts an RE2 to a network of the authors' PyTorch code; the inverse of `re2_from_pytorch`.

    Returns:
      state_dict: name -> <float32>, including the word vectors as "embedding.embedding.weight".
      settings: the settings that `re2_from_pytorch` takes, `num_vocab` and `embedding_dim`.

    Raises:
      InputError: the authors' code cannot represent this network.
    """
    model = trained.module
    if not isinstance(model, RE2):
        raise InputError(f"a {type(model).__name__} has no PyTorch layout", remedy="give an RE2")
    config = model.config
    unlike = config.blocks > 3 if config.connection == "augmented" else config.connection not in _CONNECTION_TO
    lacking = {
        "characters or other features of words": model.takes_characters or model.token_features,
        "parallel blocks or blocks without the encoder's input": config.parallel_blocks or not config.encoder_input,
        f"convolutions with {config.encoder_activation} instead of GeLU": config.encoder_activation != "gelu",
        f"connection {config.connection!r} of {config.blocks} blocks; train with 'augmented_running_sum' or "
        "'vanilla_running_sum'": unlike,
    }
    for what, is_lacking in lacking.items():
        if is_lacking:
            raise InputError(f"the authors' PyTorch code has no {what}")
    flat = flax.traverse_util.flatten_dict(trained.params)
    state_dict = {_PYTORCH.embedding: np.asarray(trained.vectors)}
    for block in range(config.blocks):
        # A model without a temperature does not scale its attention scores: its temperature is 1.
        temperature = flat.get((f"blocks_{block}", "alignment", "score_scale"), np.float32(1))
        state_dict[_PYTORCH.temperature.format(block)] = np.asarray(temperature)
    for path, name, _ in _pytorch_layers(model):
        if config.weight_normalization == "none":
            direction = flat[*path, "kernel"]
            gain = column_norms(direction)
        else:
            direction, gain = flat[*path, "direction"], flat[*path, "gain"]
        state_dict[f"{name}.weight_v"] = np.ascontiguousarray(np.asarray(direction).T)
        state_dict[f"{name}.weight_g"] = np.asarray(gain).reshape(-1, *[1] * (direction.ndim - 1))
        state_dict[f"{name}.bias"] = np.asarray(flat[*path, "bias"])
    connection = _CONNECTION_TO[config.connection]
    if connection == "residual" and config.blocks == 1:  # their residual would have weights, which are not used
        connection = "none"
    settings = {
        **{name: getattr(config, name) for name in ("alignment", "fusion", "prediction", "blocks", "hidden_size")},
        "connection": connection,
        "enc_layers": config.encoder_layers,
        "kernel_sizes": list(config.kernel_sizes),
        "num_classes": model.outputs,
        "num_vocab": len(trained.vectors),
        "embedding_dim": trained.vectors.shape[1],
    }
    return state_dict, settings


def read_pytorch_checkpoint(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads a checkpoint of the authors' code (`best.pt`) with PyTorch. No code in the file is executed.

    The result is the state dict and the settings, as `re2_from_pytorch` takes them.

    Raises:
      InputError: PyTorch is not installed, or the file is missing, damaged, or not a checkpoint of the authors' code.
    """
    try:
        import torch
    except ImportError:
        raise NotInstalled("a checkpoint of PyTorch", "torch", "torch", path=path) from None
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        arrays = {name: value.numpy() for name, value in checkpoint["state_dict"]["model"].items()}
        return arrays, dict(vars(checkpoint["args"]))
    except Exception as error:  # torch does not say what it raises for a damaged file
        problem = f"this is not a checkpoint of the authors' RE2 ({type(error).__name__}: {error!s:.200})"
        raise InputError(problem, path=path, remedy="give the best.pt that their training wrote") from error
