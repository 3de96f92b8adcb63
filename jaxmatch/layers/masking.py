"""What padding must not touch. A mask is <bool>[batch, length], true where there is a token."""

import jax
import jax.numpy as jnp


def zero_padding(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """<float32>[batch, length, size] with zeros where there is no token."""
    return jnp.where(mask[..., None], sequence, 0.0)


def lowest(dtype: jnp.dtype) -> float:
    """The lowest finite number: -inf would make NaN of a row in which everything is masked."""
    return float(jnp.finfo(dtype).min)
