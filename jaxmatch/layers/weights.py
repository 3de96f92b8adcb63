"""Weight normalization (Salimans and Kingma, 2016) with He initialization (He et al., 2015); RE2, section 3.2."""

import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import over_features


def column_norms(direction: jax.Array) -> jax.Array:
    """Returns the norm of the weight vector of each output: <float32>[..., outputs] -> <float32>[outputs]."""
    return jnp.sqrt(_squared_norms(direction))


def _squared_norms(direction: jax.Array) -> jax.Array:
    return jnp.sum(jnp.square(direction), axis=tuple(range(direction.ndim - 1)))


def folded(params: Any) -> Any:
    """Folds weight normalization into kernels: each direction and gain become the kernel that they define.

    Arguments:
      params: the parameter tree of a module whose `weight_normalization` is not 'none'.

    Returns:
      the parameter tree of the same module with `weight_normalization` 'none', which computes the same with less work.
    """
    if not isinstance(params, Mapping):
        return params
    folded_params = {name: folded(value) for name, value in params.items() if name not in ("direction", "gain")}
    if "direction" in params:
        folded_params["kernel"] = kernel_of(params["direction"], params["gain"])
    return folded_params


def kernel_of(direction: jax.Array, gain: jax.Array) -> jax.Array:
    """Computes `gain * direction / norm(direction)`. The kernel of a zero direction is zero, with a finite gradient.

    Arguments:
      direction: <float32>[..., outputs].
      gain: <float32>[outputs].

    Returns:
      <float32>[..., outputs].
    """
    squares = _squared_norms(direction)
    norms = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return direction * over_features(gain / norms, direction)


def normalized_kernel(
    module: nn.Module, shape: tuple[int, ...], *, activated: bool, weight_normalization: str
) -> jax.Array:
    """Declares the weights of a layer in `module` and returns the kernel that they define.

    The kernel is `gain * direction / norm(direction)`, with one gain and one norm per output. The direction is
    initialized with standard deviation sqrt(2 / fan in), or sqrt(1 / fan in) if no activation follows. The gain is
    initialized to
      'he': the norm of the direction, so that the kernel starts at the direction (the paper; the PyTorch code);
      'unit': 1, which cancels the scale of the direction (the TensorFlow code).
    With 'none', the kernel itself is the parameter.

    Arguments:
      module: the compact module that owns the parameters `direction` and `gain` (or `kernel`).
      shape: (..., outputs); the fan in is the product of all dimensions but the last.
      activated: whether an activation follows.
      weight_normalization: 'he', 'unit' or 'none', as described above.

    Returns:
      <float32>[*shape].
    """
    deviation = math.sqrt((2.0 if activated else 1.0) / math.prod(shape[:-1]))
    initial_direction = nn.initializers.normal(deviation)
    if weight_normalization == "none":
        return module.param("kernel", initial_direction, shape, jnp.float32)
    direction = module.param("direction", initial_direction, shape, jnp.float32)
    initial_gain = {"he": lambda _: column_norms(direction), "unit": lambda _: jnp.ones(shape[-1:])}[
        weight_normalization
    ]
    gain = module.param("gain", initial_gain)
    return kernel_of(direction, gain)
