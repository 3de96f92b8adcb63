"""Max-over-time pooling (Collobert et al., 2011; RE2, section 2)."""

import jax
import jax.numpy as jnp

from jaxmatch.layers.masking import lowest


def max_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """The largest value of each feature among the tokens; zeros for a sentence with no token.

    Arguments:
      sequence: <float32>[batch, length, features].
      mask: <bool>[batch, length].

    Returns:
      <float32>[batch, features].
    """
    largest = jnp.max(jnp.where(mask[..., None], sequence, lowest(sequence.dtype)), axis=1)
    return jnp.where(jnp.any(mask, axis=1)[:, None], largest, 0.0)
