"""ESAN's co-attention (section 2.2.2)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.attention import attention_weights, of_other_sentence
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import matmul


class CoAttention(nn.Module):
    """The alignment of each token with the tokens of the other sentence, weighted by products of ReLU projections.

    Arguments:
      features: the number of features of the projection.
      precision: the precision of the matrix products.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, sequence: jax.Array, sentences: jax.Array) -> jax.Array:
        """Aligns the two sentences of a row, in both directions at once.

        Arguments:
          sequence: <float32>[batch, length, size], the tokens of both sentences.
          sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.

        Returns:
          <float32>[batch, length, size], the aligned representations a'_i and b'_j.
        """
        # Eq. 5: e_ij = ReLU(W_c a_i)^T ReLU(W_c b_j), without a bias
        projected = Linear(self.features, "relu", use_bias=False, precision=self.precision, name="projection")(sequence)
        scores = matmul(projected, jnp.swapaxes(projected, -1, -2), self.precision)
        weights = attention_weights(scores, of_other_sentence(sentences))
        self.sow("intermediates", "weights", weights)
        return matmul(weights, sequence, self.precision)  # Eq. 6 and 7
