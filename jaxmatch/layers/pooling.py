"""Pooling over the tokens of a sentence: maximum (Collobert et al., 2011; RE2, section 2), mean (ESAN, Eq. 9), sum
(CSRAN, Eq. 8) and the final states of an LSTM (BiMPM, section 3.1). The prediction layers over pooled vectors.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.core import Dense, Dropout, HighwayLayer, lowest, of_scores


def max_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns the maximum of each feature over the tokens; zeros for a sentence without tokens.

    Arguments:
      sequence: <float32>[batch, length, features].
      mask: <bool>[batch, length], True at the tokens of the sentence.

    Returns:
      <float32>[batch, features].
    """
    largest = jnp.max(jnp.where(mask[..., None], sequence, lowest(sequence.dtype)), axis=1)
    return jnp.where(jnp.any(mask, axis=1)[:, None], largest, 0.0)


def max_by_argmax(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """Computes `max_over_time` of a sequence that is cheap to compute, such as the output of a normalization.

    The gradient of a maximum compares the maximum with the sequence. If XLA computes the sequence a second time for
    this, with another rounding, the maximum may not be found in it. This function finds the position of the maximum
    instead, which gets the whole gradient.
    """
    masked = jnp.where(mask[..., None], sequence, lowest(sequence.dtype))
    position = jnp.argmax(jax.lax.stop_gradient(masked), axis=1)
    is_maximum = (jax.lax.iota(jnp.int32, sequence.shape[1])[None, :, None] == position[:, None]) & mask[..., None]
    return jnp.sum(jnp.where(is_maximum, sequence, 0.0), axis=1)


def sum_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns the sum of each feature over the tokens; arguments and result are those of `max_over_time`."""
    return jnp.sum(jnp.where(mask[..., None], sequence, 0.0), axis=1, dtype=jnp.float32)


def mean_over_time(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns the mean of each feature over the tokens; arguments and result are those of `max_over_time`."""
    return sum_over_time(sequence, mask) / jnp.maximum(jnp.sum(mask, axis=1), 1)[:, None]


def mean_and_max(sequence: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns the mean and the maximum side by side, <float32>[batch, 2 * features] (ESAN, Eq. 9 and 10)."""
    return jnp.concatenate([mean_over_time(sequence, mask), max_over_time(sequence, mask)], axis=-1)


def final_states(states: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns the final state of each direction of a bidirectional LSTM.

    This is the forward half of the last token's state, and the backward half of the first token's. Arguments and result
    are those of `max_over_time`.
    """
    forward, backward = jnp.split(states, 2, axis=-1)
    position = jax.lax.iota(jnp.int32, mask.shape[1])[None]
    is_last = mask & (position == jnp.max(jnp.where(mask, position, -1), axis=1, keepdims=True))
    is_first = mask & (position == jnp.argmax(mask, axis=1)[:, None])
    return jnp.concatenate([sum_over_time(forward, is_last), sum_over_time(backward, is_first)], axis=-1)


# kind -> the inputs of H, computed from the vectors of both sentences
PREDICTIONS = {
    "full": lambda a, b: [a, b, a - b, a * b],  # RE2, Eq. 5
    "symmetric": lambda a, b: [a, b, jnp.abs(a - b), a * b],  # RE2, Eq. 6
    "simple": lambda a, b: [a, b],  # RE2, Eq. 7
}


class Perceptron(nn.Module):
    """The prediction layers of all models except RE2 and DIIN: a perceptron over the vectors of both sentences, with
    dropout before every layer (ESAN, Eq. 11 and 12; CSRAN, section 2.5).

    Attributes:
      kind: the inputs that are computed from the two vectors, a key of `PREDICTIONS`.
      hidden_layer: the kind of the hidden layers: 'dense' (with ReLU), 'tanh' (ESIM, BiMPM) or 'highway' (CAFE, and
        CSRAN's released run).
      layers: the number of layers, including the last, which computes the logits.
      features: the number of outputs of each layer before the last.
      outputs: the number of classes, or 1 in regression.
      precision: the precision of the matrix products.
    """

    kind: str
    hidden_layer: str
    layers: int
    features: int
    outputs: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, a: jax.Array, b: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes the logits: a, b <float32>[batch, size] -> <float32>[batch, outputs]."""
        inputs = tuple(PREDICTIONS[self.kind](a, b))
        for layer in range(self.layers - 1):
            options = dict(precision=self.precision, name=f"hidden_{layer}")
            if self.hidden_layer == "highway":
                hidden = HighwayLayer(self.features, **options)
            else:
                hidden = Dense(self.features, "tanh" if self.hidden_layer == "tanh" else "relu", **options)
            inputs = (hidden(*Dropout()(inputs, dropout_rate)),)
        # Logits are never in bfloat16, as in models/re2.py.
        output = Dense(self.outputs, precision=of_scores(self.precision), name="output")
        return output(*Dropout()(inputs, dropout_rate))
