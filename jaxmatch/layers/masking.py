"""Masking of padding."""

import jax.numpy as jnp


def lowest(dtype: jnp.dtype) -> float:
    """Returns the lowest finite number of a type. Unlike -inf, it gives no NaN if a whole row is masked."""
    return float(jnp.finfo(dtype).min)
