"""Attention: the tokens that a token may attend to, the weight of each, and the comparison with their weighted sum.

`sentences`, <int8>[batch, length], is the sentence of each token of a row, 1 or 2; 0 is padding.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.core import Dense, Dropout, Features, dot_products, lowest, matmul


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
