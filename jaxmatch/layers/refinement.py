"""The CAFE block (Tay et al., 2018, "Compare, Compress and Propagate"; CSRAN, section 2.3)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.attention import attention_weights, of_other_sentence, of_same_sentence
from jaxmatch.layers.factorization import FactorizationMachine
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts


class AttentionRefinement(nn.Module):
    """Aligns each token with the other sentence and with its own, and compresses each comparison to one number.

    Arguments:
      factors: of the factorisation machines.
      precision: of the matrix products; the factorisation machines run in float32.
    """

    factors: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, sequence: jax.Array, sentences: jax.Array) -> Parts:
        """Augments the tokens.

        Arguments:
          sequence: <float32>[batch, length, size].
          sentences: <int8>[batch, length], which sentence a token is of; 0 is padding.

        Returns:
          `sequence`, and three numbers from the other sentence and three from its own, <float32>[batch, length, 6].
        """
        between = self._scalars("between", sequence, of_other_sentence(sentences))
        within = self._scalars("within", sequence, of_same_sentence(sentences))
        return sequence, jnp.concatenate([*between, *within], axis=-1).astype(sequence.dtype)

    def _scalars(self, name: str, sequence: jax.Array, allowed: jax.Array) -> list[jax.Array]:
        """The three comparisons with what `allowed` tokens give, <float32>[batch, length, 1] each."""
        # E_ij = F(a_i)^T F(b_j); F is a ReLU layer without bias in the released code.
        project = Linear(
            sequence.shape[-1], "relu", use_bias=False, precision=self.precision, name=f"{name}_projection"
        )
        projected = project(sequence)
        weights = attention_weights(matmul(projected, jnp.swapaxes(projected, -1, -2), self.precision), allowed)
        if name == "between":  # how a token attends to its own sentence is no alignment of two
            self.sow("intermediates", "weights", weights)  # kept as in layers/alignment.py
        aligned = matmul(weights, sequence, self.precision)  # Eq. 2
        comparisons = {
            "concatenation": (aligned, sequence),
            "product": (aligned * sequence,),
            "difference": (aligned - sequence,),
        }
        # Eq. 3
        return [
            FactorizationMachine(self.factors, name=f"{name}_{which}")(parts) for which, parts in comparisons.items()
        ]
