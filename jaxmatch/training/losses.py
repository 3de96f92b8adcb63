"""The losses of a batch."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import optax


def cross_entropy(outputs: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the softmax cross entropy, `<float32>[batch]`, of `<float32>[batch, classes]` and `<int32>[batch]`."""
    return optax.softmax_cross_entropy_with_integer_labels(outputs, labels)


def squared_error(outputs: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the squared error, `<float32>[batch]`, of `<float32>[batch, 1]` and `<float32>[batch]`."""
    return jnp.square(outputs[:, 0] - labels)


# A ranking is trained by point-wise binary classification (RE2, section 3.5).
LOSSES = {"classification": cross_entropy, "ranking": cross_entropy, "regression": squared_error}
# Hyperparameter -> the function that changes the losses by it; filled by jaxmatch/extend.py.
ADDED: dict[str, Callable[..., jax.Array]] = {}


def losses(task: str, outputs: jax.Array, labels: jax.Array, added: Mapping[str, jax.Array]) -> jax.Array:
    """Returns the loss of each pair, `<float32>[batch]`, as changed by the added hyperparameters."""
    pair_losses = LOSSES[task](outputs, labels)
    for name, function in ADDED.items():
        pair_losses = function(pair_losses, outputs, labels, added[name])
    return pair_losses
