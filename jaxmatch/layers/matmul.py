"""The one matrix product all layers use, in the precision a config asks for."""

import jax
import jax.numpy as jnp

PRECISIONS = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


def matmul(left: jax.Array, right: jax.Array, precision: str) -> jax.Array:
    """Multiplies matrices in `precision`; what goes in and comes out is float32.

    Arguments:
      left: <float32>[..., rows, inner].
      right: <float32>[..., inner, columns].
      precision: a key of `PRECISIONS`.

    Returns:
      <float32>[..., rows, columns].
    """
    dtype = PRECISIONS[precision]
    # The result is rounded to `dtype` before it becomes float32, so that the gradient's two products run in it as well.
    return jnp.matmul(left.astype(dtype), right.astype(dtype)).astype(jnp.float32)
