"""The CAFE block (Tay et al., 2018, "Compare, Compress and Propagate"; CSRAN, section 2.3)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RefinementConfig
from jaxmatch.layers.attention import attention_weights, of_other_sentence, of_same_sentence
from jaxmatch.layers.factorization import FactorizationMachine
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts


class AttentionRefinement(nn.Module):
    """The CAFE block.

    It aligns each token with the other sentence and with its own, and compresses each comparison to one number. The
    factorization machines run in float32.
    """

    config: RefinementConfig

    @nn.compact
    def __call__(self, sequence: jax.Array, sentences: jax.Array) -> Parts:
        """Augments the tokens with features of their alignments.

        Arguments:
          sequence: <float32>[batch, length, size].
          sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.

        Returns:
          `sequence`; three features from the other sentence and three from its own, <float32>[batch, length, 6], or
          seven features with `meta_factors`; and with `flow_intra` also the aligned representation of each token in its
          own sentence, with the shape of `sequence`.
        """
        _, between = self._compared("between", sequence, of_other_sentence(sentences), projected=True)
        self_aligned, within = self._compared(
            "within", sequence, of_same_sentence(sentences), projected=self.config.intra_projection
        )
        features = jnp.concatenate([*between, *within], axis=-1)
        if self.config.meta_factors:
            meta = FactorizationMachine(self.config.meta_factors, name="meta")((features,))
            features = jnp.concatenate([features, meta], axis=-1)
        return sequence, features.astype(sequence.dtype), *((self_aligned,) if self.config.flow_intra else ())

    def _compared(
        self, name: str, sequence: jax.Array, allowed: jax.Array, *, projected: bool
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Aligns each token with the `allowed` tokens, and compares it with its aligned representation.

        Returns:
          the aligned representations, and three comparisons, <float32>[batch, length, 1] each.
        """
        precision, seen = self.config.precision, sequence
        if projected:
            # E_ij = F(a_i)^T F(b_j); F is a ReLU layer without bias in the released code.
            size = sequence.shape[-1]
            seen = Linear(size, "relu", use_bias=False, precision=precision, name=f"{name}_projection")(sequence)
        weights = attention_weights(matmul(seen, jnp.swapaxes(seen, -1, -2), precision), allowed)
        if name == "between":  # attention within one sentence is no alignment of two
            self.sow("intermediates", "weights", weights)  # stored as in layers/alignment.py
        aligned = matmul(weights, sequence, precision)  # Eq. 2
        comparisons = {
            "concatenation": (aligned, sequence),
            "product": (aligned * sequence,),
            "difference": (aligned - sequence,),
        }
        # Eq. 3
        machines = {which: FactorizationMachine(self.config.factors, name=f"{name}_{which}") for which in comparisons}
        return aligned, [machines[which](parts) for which, parts in comparisons.items()]
