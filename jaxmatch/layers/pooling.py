"""Pooling over the tokens of a sentence: maximum (Collobert et al., 2011; RE2, section 2), mean (ESAN, Eq. 9), sum
(CSRAN, Eq. 8) and the final states of an LSTM (BiMPM, section 3.1)."""

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


def max_by_place(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """As `max_over_time`, for a sequence that is cheap to compute, such as a normalization's output.

    The gradient of a maximum compares it with the sequence. Where XLA computes the sequence a second time for that,
    with another rounding, the largest number may not be found. Here its place is found, and takes the whole gradient.
    """
    masked = jnp.where(mask[..., None], sequence, lowest(sequence.dtype))
    place = jnp.argmax(jax.lax.stop_gradient(masked), axis=1)
    is_there = (jax.lax.iota(jnp.int32, sequence.shape[1])[None, :, None] == place[:, None]) & mask[..., None]
    return jnp.sum(jnp.where(is_there, sequence, 0.0), axis=1)


def sum_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """The sum of each feature over the tokens; arguments and result as of `max_over_time`."""
    return jnp.sum(jnp.where(mask[..., None], sequence, 0.0), axis=1, dtype=jnp.float32)


def mean_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """The mean of each feature over the tokens; arguments and result as of `max_over_time`."""
    return sum_over_time(sequence, mask) / jnp.maximum(jnp.sum(mask, axis=1), 1)[:, None]


def mean_and_max(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """Both side by side, <float32>[batch, 2 * features] (ESAN, Eq. 9 and 10)."""
    return jnp.concatenate([mean_over_time(sequence, mask), max_over_time(sequence, mask)], axis=-1)


def final_states(states: jax.Array, mask: jax.Array) -> jax.Array:
    """Where each direction of a bidirectional LSTM ends: the forward half of the last token's states, the backward half
    of the first token's. Arguments and result as of `max_over_time`.
    """
    forward, backward = jnp.split(states, 2, axis=-1)
    place = jax.lax.iota(jnp.int32, mask.shape[1])[None]
    is_last = mask & (place == jnp.max(jnp.where(mask, place, -1), axis=1, keepdims=True))
    is_first = mask & (place == jnp.argmax(mask, axis=1)[:, None])
    return jnp.concatenate([sum_over_time(forward, is_last), sum_over_time(backward, is_first)], axis=-1)
