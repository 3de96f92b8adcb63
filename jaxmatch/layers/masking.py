"""What padding must not touch."""

import jax.numpy as jnp


def lowest(dtype: jnp.dtype) -> float:
    """The lowest finite number: -inf would make NaN of a row in which everything is masked."""
    return float(jnp.finfo(dtype).min)
