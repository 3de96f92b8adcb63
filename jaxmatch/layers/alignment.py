"""The alignment layer of RE2 (section 2.2): each token meets the other sentence's tokens, weighted by similarity."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.masking import lowest
from jaxmatch.layers.matmul import matmul

ALIGNMENTS = ("linear", "identity")


class Alignment(nn.Module):
    """Aligned representations of both sentences.

    Arguments:
      kind: F of Eq. 2: 'linear' is a single-layer feed-forward network (with GeLU), 'identity' nothing.
      features: the model's hidden size; the temperature starts at 1 / sqrt(features).
      weight_normalization, precision: as in layers/dense.py.
    """

    kind: str
    features: int
    weight_normalization: str = "he"
    precision: str = "float32"

    def setup(self):
        # The paper does not mention the temperature; the released code has one learned scalar a block.
        self.temperature = self.param("temperature", nn.initializers.constant(1 / math.sqrt(self.features)), (), jnp.float32)
        if self.kind == "linear":
            self.projection = Dense(
                self.features, weight_normalization=self.weight_normalization, precision=self.precision
            )
        self.dropout = Dropout()

    def _project(self, sequence: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """F of Eq. 2."""
        if self.kind == "identity":
            return sequence
        return self.projection(self.dropout(sequence, dropout_rate))

    def __call__(
        self, a: jax.Array, b: jax.Array, mask_a: jax.Array, mask_b: jax.Array, dropout_rate: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        """Aligns two sentences.

        Arguments:
          a: <float32>[batch, length_a, size], zero where there is no token.
          b: <float32>[batch, length_b, size], zero where there is no token.
          mask_a: <bool>[batch, length_a].
          mask_b: <bool>[batch, length_b].
          dropout_rate: <float32>[] or None in evaluation.

        Returns:
          a' <float32>[batch, length_a, size], what each token of a finds in b, and b' <float32>[batch, length_b, size].
        """
        projected_a, projected_b = self._project(a, dropout_rate), self._project(b, dropout_rate)
        scores = matmul(projected_a, jnp.swapaxes(projected_b, -1, -2), self.precision)  # Eq. 2: e_ij = F(a_i)^T F(b_j)
        scores = jnp.where(mask_a[:, :, None] & mask_b[:, None, :], scores * self.temperature, lowest(scores.dtype))
        over_b, over_a = nn.softmax(scores, axis=2), nn.softmax(scores, axis=1)
        aligned_a = matmul(over_b, b, self.precision)  # Eq. 3: a'_i = sum_j softmax_j(e_ij) b_j
        aligned_b = matmul(jnp.swapaxes(over_a, -1, -2), a, self.precision)  # Eq. 3: b'_j = sum_i softmax_i(e_ij) a_i
        return aligned_a, aligned_b
