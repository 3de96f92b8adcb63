"""Pooling over the tokens of a sentence: maximum (Collobert et al., 2011; RE2, section 2), mean (ESAN, Eq. 9) and sum
(CSRAN, Eq. 8)."""

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


def sum_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """The sum of each feature over the tokens; arguments and result as of `max_over_time`."""
    return jnp.sum(jnp.where(mask[..., None], sequence, 0.0), axis=1, dtype=jnp.float32)


def mean_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """The mean of each feature over the tokens; arguments and result as of `max_over_time`."""
    return sum_over_time(sequence, mask) / jnp.maximum(jnp.sum(mask, axis=1), 1)[:, None]


def mean_and_max(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """Both side by side, <float32>[batch, 2 * features] (ESAN, Eq. 9 and 10)."""
    return jnp.concatenate([mean_over_time(sequence, mask), max_over_time(sequence, mask)], axis=-1)
