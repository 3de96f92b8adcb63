"""Attention: the tokens that a token may attend to, the weight of each, and the comparison with their weighted sum."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.core import Dense, Dropout, Parts, dot_products, lowest, matmul


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


class DotProductAttention(nn.Module):
    """The alignment of each token with the tokens of the other sentence, weighted by dot products (DecAtt, section 3.1;
    ESIM, Eq. 11 to 13).

    Arguments:
      precision: the precision of the matrix products.
    """

    precision: str = "float32"

    @nn.compact
    def __call__(self, compared: jax.Array, sequence: Parts, sentences: jax.Array) -> Parts:
        """Aligns the two sentences of a row, in both directions at once.

        Arguments:
          compared: <float32>[batch, length, inputs], the vectors of the tokens whose dot products are the scores.
          sequence: parts of <float32>[batch, length, size], the vectors of the tokens that are averaged.
          sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.

        Returns:
          parts with the shapes of `sequence`, the aligned representation of each token.
        """
        scores = dot_products((compared,), (compared,), self.precision)
        weights = attention_weights(scores, of_other_sentence(sentences), compared.dtype)
        self.sow("intermediates", "weights", weights)
        return tuple(matmul(weights, part, self.precision) for part in sequence)


def compared(own: Parts, aligned: Parts) -> Parts:
    """Compares a sequence with its aligned representation (ESAN, Eq. 8; CSRAN, Eq. 6).

    Returns [a; a'; a - a'; a * a'], each in parts like `own` and `aligned`: <float32>[batch, length, size].
    """
    differences = tuple(mine - other for mine, other in zip(own, aligned, strict=True))
    products = tuple(mine * other for mine, other in zip(own, aligned, strict=True))
    return (*own, *aligned, *differences, *products)


class ComparisonFusion(nn.Module):
    """ESAN's fusion layer with dropout before it (Eq. 8): `relu(W_f [a; a'; a - a'; a * a'] + z_f)`.

    Arguments:
      features: the number of outputs.
      precision: the precision of the matrix product.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """Fuses `own` and `aligned`, parts of <float32>[batch, length, size] -> <float32>[batch, length, features]."""
        seen = Dropout().in_parts(compared(own, aligned), dropout_rate)
        return Dense(self.features, "relu", precision=self.precision, name="output")(*seen)
