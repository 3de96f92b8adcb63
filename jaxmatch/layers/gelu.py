"""GeLU in its tanh form (Hendrycks and Gimpel, 2016), the activation of every RE2 layer."""

import math

import jax
import jax.numpy as jnp

_SCALE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


@jax.custom_jvp
def gelu(inputs: jax.Array) -> jax.Array:
    """Computes 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): <float32>[...] -> the same shape."""
    return 0.5 * inputs * (1 + jnp.tanh(_SCALE * (inputs + _CUBIC * inputs**3)))


@gelu.defjvp
def _derivative(primals, tangents):
    # The derivative is computed beside the value, from the same tanh: the backward pass stores one array, not four.
    (inputs,), (tangent,) = primals, tangents
    value, slope = gelu_and_slope(inputs)
    # The barrier makes XLA's GPU compiler store the slope. Without the barrier, the compiler would store the arrays
    # that the inputs are computed from, three times as much in a convolution.
    return value, jax.lax.optimization_barrier(slope) * tangent


def gelu_and_slope(inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Computes GeLU and its derivative: <float32>[...] -> two arrays of the same shape."""
    square = inputs * inputs
    tanh = jnp.tanh(_SCALE * inputs * (1 + _CUBIC * square))
    slope = 0.5 * (1 + tanh) + 0.5 * inputs * (1 - tanh * tanh) * _SCALE * (1 + 3 * _CUBIC * square)
    return 0.5 * inputs * (1 + tanh), slope
