"""The alignment layer of RE2 (section 2.2): each token meets the other sentence's tokens, weighted by similarity."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.attention import attention_weights, of_other_sentence
from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts

ALIGNMENTS = ("linear", "identity")


class Alignment(nn.Module):
    """What each token finds in the other sentence.

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

    def _project(self, sequence: Parts, dropout_rate: jax.Array | None) -> Parts:
        """F of Eq. 2."""
        if self.kind == "identity":
            return sequence
        return (self.projection(*self.dropout.in_parts(sequence, dropout_rate)),)

    def __call__(self, sequence: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> Parts:
        """Aligns the two sentences of a row, in both directions at once.

        Arguments:
          sequence: parts of <float32>[batch, length, size], the tokens a_i of sentence 1 and b_j of sentence 2.
          sentences: <int8>[batch, length], which sentence a token is of; 0 is padding.
          dropout_rate: <float32>[] or None in evaluation.

        Returns:
          parts as `sequence` has them, what each token finds in the other sentence: a'_i and b'_j.
        """
        projected = self._project(sequence, dropout_rate)
        # Eq. 2: e_ij = F(a_i)^T F(b_j)
        scores = sum(matmul(part, jnp.swapaxes(part, -1, -2), self.precision) for part in projected)
        weights = attention_weights(scores * self.temperature.astype(scores.dtype), of_other_sentence(sentences))
        # Kept only where a caller asks for intermediates (analysis/attention.py); otherwise nothing is added to the program.
        self.sow("intermediates", "weights", weights)
        # Eq. 3: a'_i = sum_j softmax_j(e_ij) b_j, and b'_j likewise
        return tuple(matmul(weights, part, self.precision) for part in sequence)
