"""Conversion of models: RE2 from its authors' PyTorch and TensorFlow code, and back to PyTorch.

PyTorch: alibaba-edu/simple-effective-text-matching-pytorch. TensorFlow: hitvoice/RE2, the authors' first code, which
produced the paper's results. A state dict, or a mapping of variables, maps the names of that code's parameters to
arrays. The settings also have the names of that code:

    alignment 'linear' | 'identity', fusion 'full' | 'simple', connection 'aug' | 'residual' | 'none',
    prediction 'full' | 'symmetric' | 'simple', blocks, enc_layers, hidden_size, num_classes,
    kernel_sizes (PyTorch) or kernel_size (TensorFlow)

Other settings in a checkpoint's arguments are ignored. The TensorFlow code differs from the PyTorch code: convolutions
have ReLU, a residual connection maps a block's output to the size of its input, embeddings come before the residual
part, and a * b comes before a - b. TensorFlow is not needed. In the names and comments below, "theirs" is the authors'
code and "ours" is this package.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.inference.inference_model import InferenceModel
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
        yield (f"blocks_{block}", "alignment", "score_scale"), f"blocks.{block}.alignment.temperature"


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
    """Reads a checkpoint of the authors' code (`best.pt`) with PyTorch. No code in the file is executed.

    Arguments:
      path: the file. It holds a dict of `state_dict` (whose `model` holds the parameters) and `args`.

    Returns:
      The state dict and the settings, as `re2_from_pytorch` takes them.

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
        settings = dict(vars(checkpoint["args"]))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path=path) from error
    except Exception as error:  # torch does not say what it raises for a damaged file
        raise InputError(
            f"this is not a checkpoint of the authors' RE2 ({type(error).__name__}: {error!s:.200})",
            path=path,
            remedy="give the best.pt that their training wrote",
        ) from error
    return arrays, settings


_TF_EMBEDDING = "embedding/embedding_matrix"
_CONNECTION = {"aug": "augmented_running_sum", "residual": "vanilla_projected", "none": "none"}
_TF_FUSION = {"concatenation": "orig", "difference": "sub", "product": "mul", "output": "proj"}

TfPath = tuple[str, ...]
# The sizes of the parts of a layer's inputs in the authors' order, and the indices of these parts in our order.
Reordering = tuple[tuple[int, ...], tuple[int, ...]]


def model_of_tensorflow(settings: Mapping[str, Any]) -> RE2:
    """Builds our model with the settings of the authors' TensorFlow code.

    Raises:
      InputError: a setting is missing or unknown.
    """
    ours = settings_of(settings, "kernel_size", _CONNECTION)
    its = {"encoder_activation": "relu", "weight_normalization": "unit"}
    return build({**ours, **its}, outputs=settings["num_classes"])


def _tf_layers(model: RE2, dimensions: int) -> Iterator[tuple[TfPath, str, Reordering | None]]:
    """Yields the path of each weight-normalized layer in our tree, its scope in theirs and the order of its inputs."""
    hidden = model.config.hidden_size
    for block in range(model.config.blocks):
        ours, theirs = (f"blocks_{block}",), f"block-{block}"
        augmented = block > 0 and model.config.connection == "augmented_running_sum"
        # Theirs: embeddings, residual, encoded. Ours: residual, embeddings, encoded.
        block_input: Reordering | None = ((dimensions, hidden), (1, 0)) if augmented else None
        encoded: Reordering | None = ((dimensions, hidden, hidden), (1, 0, 2)) if augmented else None
        both: Reordering | None = ((dimensions, hidden, hidden) * 2, (1, 0, 2, 4, 3, 5)) if augmented else None
        for layer in range(model.config.encoder_layers):
            yield (
                (*ours, "encoder", f"convolution_{layer}"),
                f"{theirs}/encoder/cnn_{layer}",
                None if layer else block_input,
            )
        if model.config.alignment == "linear":
            yield (*ours, "alignment", "projection"), f"{theirs}/alignment/proj/dense", encoded
        if model.config.fusion == "full":
            for name, scope in _TF_FUSION.items():
                yield (*ours, "fusion", name), f"{theirs}/align/{scope}", None if name == "output" else both
        else:
            yield (*ours, "fusion", "output"), f"{theirs}/align/dense", both
        if block > 0 and model.config.connection == "vanilla_projected" and hidden != dimensions:
            yield ("connection", f"projection_{block}"), f"{theirs}/residual_projection", None
    # Theirs: a, b, a * b, a - b. Ours: a, b, a - b, a * b.
    pooled = ((hidden,) * 4, (0, 1, 3, 2)) if model.config.prediction != "simple" else None
    yield ("prediction", "hidden"), "prediction/dense_1", pooled
    yield ("prediction", "output"), "prediction/dense_2", None


def _reordered(weight: np.ndarray, order: Reordering | None) -> np.ndarray:
    """Returns a weight <float32>[..., inputs, outputs] with the parts of its input axis in our order."""
    if order is None or weight.shape[-2] != sum(order[0]):
        return weight
    sizes, places = order
    pieces = np.split(weight, np.cumsum(sizes)[:-1], axis=-2)
    return np.concatenate([pieces[place] for place in places], axis=-2)


def re2_from_tensorflow(variables: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> InferenceModel:
    """Converts a network of the authors' TensorFlow code.

    Arguments:
      variables: name -> array of any float type, as `tf.train.load_checkpoint` reads them, including the word vectors.
        Variables of the optimizer (`global_step`, `lr`, those of Adam) are ignored.
      settings: `alignment` ("linear" or "identity"), `fusion` ("full" or "simple"), `connection` ("aug", "residual" or
        "none"), `prediction` ("full", "symmetric" or "simple"), and the numbers `blocks`, `enc_layers`, `hidden_size`,
        `kernel_size` and `num_classes`. Other settings are ignored.

    Returns:
      The model with its parameters and word vectors, all float32.

    Raises:
      InputError: a setting is missing or unknown, or a variable is missing or unknown, or its shape does not fit the
        settings.
    """
    model = model_of_tensorflow(settings)
    unread = {name: value for name, value in variables.items() if not _is_optimizer_variable(name)}

    def read(name: str) -> np.ndarray:
        if name not in unread:
            raise InputError(f"the variables lack {name}", remedy="check that the settings are those of this network")
        return np.asarray(unread.pop(name), np.float32)

    vectors = read(_TF_EMBEDDING)
    flat: dict[TfPath, np.ndarray] = {}
    for block in range(model.config.blocks):
        flat[f"blocks_{block}", "alignment", "score_scale"] = read(f"block-{block}/alignment/temperature")
    for path, scope, order in _tf_layers(model, vectors.shape[-1]):
        flat[*path, "direction"] = _reordered(read(f"{scope}/weight"), order)
        flat[*path, "gain"] = read(f"{scope}/weight_g").reshape(-1)
        flat[*path, "bias"] = read(f"{scope}/bias")
    if unread:
        raise InputError(f"the variables have {sorted(unread)[0]}, which a network with these settings does not have")
    params = flax.traverse_util.unflatten_dict(flat)
    check_shapes(model, params, vectors, _TF_EMBEDDING)
    return InferenceModel(model, params, vectors)


def _is_optimizer_variable(name: str) -> bool:
    return name in ("global_step", "lr", "beta1_power", "beta2_power") or name.endswith(("/Adam", "/Adam_1"))


__all__ = ["re2_from_pytorch", "re2_from_tensorflow", "re2_to_pytorch", "read_pytorch_checkpoint"]
