"""Conversion of RE2 from its authors' first code, in TensorFlow (hitvoice/RE2), which produced the paper's results.

The variables map the names of that code to arrays. The settings also have the names of that code:

    alignment 'linear' | 'identity', fusion 'full' | 'simple', connection 'aug' | 'residual' | 'none',
    prediction 'full' | 'symmetric' | 'simple', blocks, enc_layers, hidden_size, kernel_size, num_classes

The differences from the PyTorch code (pytorch.py): Convolutions have ReLU. A residual connection maps a block's output
to the size of its input. Embeddings come before the residual part, and a * b comes before a - b.

TensorFlow is not needed. In the names and comments below, "theirs" is the authors' code and "ours" is this package.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import flax.traverse_util
import numpy as np

from jaxmatch.errors import InputError
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.inference.interop.pytorch import check_shapes, settings_of
from jaxmatch.models import build
from jaxmatch.models.re2 import RE2

_EMBEDDING = "embedding/embedding_matrix"
_CONNECTION = {"aug": "augmented_running_sum", "residual": "vanilla_projected", "none": "none"}
_FUSION = {"concatenation": "orig", "difference": "sub", "product": "mul", "output": "proj"}

Path = tuple[str, ...]
# The sizes of the parts of a layer's inputs in the authors' order, and the indices of these parts in our order.
Reordering = tuple[tuple[int, ...], tuple[int, ...]]


def model_of(settings: Mapping[str, Any]) -> RE2:
    """Builds our model with the settings of the authors' TensorFlow code.

    Raises:
      InputError: a setting is missing or unknown.
    """
    ours = settings_of(settings, "kernel_size", _CONNECTION)
    its = {"encoder_activation": "relu", "weight_normalization": "unit"}
    return build({**ours, **its}, outputs=settings["num_classes"])


def _layers(model: RE2, dimensions: int) -> Iterator[tuple[Path, str, Reordering | None]]:
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
            for name, scope in _FUSION.items():
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
    model = model_of(settings)
    unread = {name: value for name, value in variables.items() if not _is_optimizer_variable(name)}

    def read(name: str) -> np.ndarray:
        if name not in unread:
            raise InputError(f"the variables lack {name}", remedy="check that the settings are those of this network")
        return np.asarray(unread.pop(name), np.float32)

    vectors = read(_EMBEDDING)
    flat: dict[Path, np.ndarray] = {}
    for block in range(model.config.blocks):
        flat[f"blocks_{block}", "alignment", "temperature"] = read(f"block-{block}/alignment/temperature")
    for path, scope, order in _layers(model, vectors.shape[-1]):
        flat[*path, "direction"] = _reordered(read(f"{scope}/weight"), order)
        flat[*path, "gain"] = read(f"{scope}/weight_g").reshape(-1)
        flat[*path, "bias"] = read(f"{scope}/bias")
    if unread:
        raise InputError(f"the variables have {sorted(unread)[0]}, which a network with these settings does not have")
    params = flax.traverse_util.unflatten_dict(flat)
    check_shapes(model, params, vectors, _EMBEDDING)
    return InferenceModel(model, params, vectors)


def _is_optimizer_variable(name: str) -> bool:
    return name in ("global_step", "lr", "beta1_power", "beta2_power") or name.endswith(("/Adam", "/Adam_1"))
