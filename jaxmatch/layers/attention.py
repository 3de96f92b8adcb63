"""Which tokens a token may attend to, and how much it attends to each."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.masking import lowest
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts


def of_other_sentence(sentences: jax.Array) -> jax.Array:
    """<int8>[batch, length] -> <bool>[batch, length, length]: pairs of a token of one sentence and one of the other."""
    return sentences[:, :, None] + sentences[:, None, :] == 3


def of_same_sentence(sentences: jax.Array) -> jax.Array:
    """<int8>[batch, length] -> <bool>[batch, length, length]: pairs of tokens of one sentence."""
    return (sentences[:, :, None] == sentences[:, None, :]) & (sentences > 0)[:, :, None]


def attention_weights(scores: jax.Array, allowed: jax.Array) -> jax.Array:
    """A softmax over what each token may attend to; zeros where that is nothing.

    Arguments:
      scores: <float32 or bfloat16>[batch, length, length]; the softmax is in float32.
      allowed: <bool>[batch, length, length].

    Returns:
      as `scores`; every row sums to 1 or is zero.
    """
    weights = nn.softmax(jnp.where(allowed, scores.astype(jnp.float32), lowest(jnp.float32)), axis=-1)
    # A token finds nothing, rather than the mean of everything, where there is nothing to attend to.
    return jnp.where(allowed, weights, 0.0).astype(scores.dtype)


class DotProductAttention(nn.Module):
    """What each token finds in the other sentence, by the dot products of what is given of the tokens (DecAtt, section
    3.1; ESIM, Eq. 11 to 13).

    Arguments:
      precision: of the matrix products.
    """

    precision: str = "float32"

    @nn.compact
    def __call__(self, compared: jax.Array, sequence: Parts, sentences: jax.Array) -> Parts:
        """Aligns the two sentences of a row, in both directions at once.

        Arguments:
          compared: <float32>[batch, length, inputs], of which the dot products are taken.
          sequence: parts of <float32>[batch, length, size], of which the weighted means are found.
          sentences: <int8>[batch, length], which sentence a token is of; 0 is padding.

        Returns:
          parts as `sequence` has them.
        """
        scores = matmul(compared, jnp.swapaxes(compared, -1, -2), self.precision)
        weights = attention_weights(scores, of_other_sentence(sentences))
        self.sow("intermediates", "weights", weights)
        return tuple(matmul(weights, part, self.precision) for part in sequence)
