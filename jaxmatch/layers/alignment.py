"""The alignment layer of RE2 (section 2.2): a weighted sum of the other sentence's tokens for each token."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.layers.attention import attention_weights, of_other_sentence
from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts


class Alignment(nn.Module):
    """The alignment of each token with the tokens of the other sentence, weighted by similarity."""

    config: RE2Config

    def setup(self):
        # The paper does not mention the temperature; the released code has one learned scalar per block.
        if self.config.temperature == "learned":
            start = nn.initializers.constant(1 / math.sqrt(self.config.hidden_size))
            self.temperature = self.param("temperature", start, (), jnp.float32)
        if self.config.alignment == "linear":
            self.projection = Dense(self.config, self.config.hidden_size)
        self.dropout = Dropout()

    def _project(self, sequence: Parts, dropout_rate: jax.Array | None) -> Parts:
        """Applies F of Eq. 2: the identity, or a single-layer feed-forward network."""
        if self.config.alignment == "identity":
            return sequence
        return (self.projection(*self.dropout.in_parts(sequence, dropout_rate)),)

    def __call__(self, sequence: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> Parts:
        """Aligns the two sentences of a row, in both directions at once.

        Arguments:
          sequence: parts of <float32>[batch, length, size], the tokens a_i of sentence 1 and b_j of sentence 2.
          sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.
          dropout_rate: <float32>[], or None in evaluation.

        Returns:
          parts with the shapes of `sequence`, the aligned representations a'_i and b'_j.
        """
        projected = self._project(sequence, dropout_rate)
        # Eq. 2: e_ij = F(a_i)^T F(b_j)
        precision = self.config.precision
        scores = sum(matmul(part, jnp.swapaxes(part, -1, -2), precision) for part in projected)
        if self.config.temperature == "learned":
            scores = scores * self.temperature.astype(scores.dtype)
        weights = attention_weights(scores, of_other_sentence(sentences))
        # Stored only if a caller requests intermediates (analysis/attention.py). Otherwise nothing is added to the
        # program.
        self.sow("intermediates", "weights", weights)
        # Eq. 3: a'_i = sum_j softmax_j(e_ij) b_j, and b'_j likewise
        return tuple(matmul(weights, part, precision) for part in sequence)
