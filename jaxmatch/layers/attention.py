"""Attention, and pooling over the tokens of a sentence.

Attention has the tokens that a token may attend to, the weight of each, and the comparison with their weighted sum.
Pooling is the maximum (Collobert et al., 2011; RE2, section 2), mean (ESAN, Eq. 9), sum (CSRAN, Eq. 8) or the final
states of an LSTM (BiMPM, section 3.1). The prediction layers over pooled vectors follow.

`sentences`, <int8>[batch, length], is the sentence of each token of a row, 1 or 2; 0 is padding.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.core import Dense, Dropout, Features, HighwayLayer, dot_products, lowest, matmul, of_scores


def of_other_sentence(sentences: jax.Array) -> jax.Array:
    """Marks the pairs of tokens of different sentences: <int8>[batch, length] -> <bool>[batch, length, length]."""
    return sentences[:, :, None] + sentences[:, None, :] == 3


def of_same_sentence(sentences: jax.Array) -> jax.Array:
    """Marks the pairs of tokens of the same sentence: <int8>[batch, length] -> <bool>[batch, length, length]."""
    return (sentences[:, :, None] == sentences[:, None, :]) & (sentences > 0)[:, :, None]


def attention_weights(scores: jax.Array, allowed: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Computes a softmax over the tokens that each token may attend to.

    Arguments:
      scores: <float32>[batch, ..., length, length].
      allowed: <bool>[batch, ..., length, length], True where a token may attend to another; broadcast to `scores`.
      dtype: the type of the weights, that of the vectors that they are multiplied with.

    Returns:
      the weights, in the shape of `scores`. The weights of a token sum to 1. They are all 0 if the token may attend to
      no token.
    """
    weights = nn.softmax(jnp.where(allowed, scores, lowest(jnp.float32)), axis=-1)
    # A token that may attend to no token gets zeros. The softmax alone would give it the mean of all tokens.
    return jnp.where(allowed, weights, 0.0).astype(dtype)


def align(module: nn.Module, scores: jax.Array, sequence: Features, sentences: jax.Array, precision: str) -> Features:
    """Returns for each token the mean of the tokens of the other sentence, weighted by the softmax of their scores,
    <float32>[batch, length, length]: `sequence`, <float32>[batch, length, size] each -> the same shapes.

    The module stores the weights if a caller requests intermediates (analysis/attention.py). Otherwise nothing is added
    to the program.
    """
    weights = attention_weights(scores, of_other_sentence(sentences), sequence[0].dtype)
    module.sow("intermediates", "weights", weights)
    return tuple(matmul(weights, each, precision) for each in sequence)


class DotProductAttention(nn.Module):
    """The alignment of each token with the tokens of the other sentence, weighted by dot products (DecAtt, section 3.1;
    ESIM, Eq. 11 to 13).
    """

    precision: str = "float32"

    @nn.compact
    def __call__(self, compared: jax.Array, sequence: Features, sentences: jax.Array) -> Features:
        """Aligns the two sentences of a row, in both directions at once.

        Arguments:
          compared: <float32>[batch, length, inputs], the vectors of the tokens whose dot products are the scores.
          sequence: <float32>[batch, length, size] each, the vectors of the tokens that are averaged.

        Returns:
          the aligned representation of each token, with the shapes of `sequence`.
        """
        scores = dot_products((compared,), (compared,), self.precision)
        return align(self, scores, sequence, sentences, self.precision)


def compared(own: Features, aligned: Features) -> Features:
    """Returns [a; a'; a - a'; a * a'] (ESAN, Eq. 8; CSRAN, Eq. 6): <float32>[batch, length, size] each."""
    differences = tuple(mine - other for mine, other in zip(own, aligned, strict=True))
    products = tuple(mine * other for mine, other in zip(own, aligned, strict=True))
    return (*own, *aligned, *differences, *products)


class ComparisonFusion(nn.Module):
    """ESAN's fusion layer with dropout before it (Eq. 8): `relu(W_f [a; a'; a - a'; a * a'] + z_f)`."""

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, own: Features, aligned: Features, dropout_rate: jax.Array | None) -> jax.Array:
        """Fuses `own` and `aligned`: <float32>[batch, length, size] each -> <float32>[batch, length, features]."""
        inputs = Dropout()(compared(own, aligned), dropout_rate)
        return Dense(self.features, "relu", precision=self.precision, name="output")(*inputs)


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
