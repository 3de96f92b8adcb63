"""How the blocks of RE2 are connected (section 2.1): the input of a block from what came before it.

A connection is called with n >= 2, the number of the block whose input x(n) it makes; the embeddings x(1); the input x(n-1) of
the block before, in parts; and the outputs o(1) ... o(n-1). All are <float32>[batch, length, ...]. It gives x(n) in parts
(layers/parts.py).
"""

import math
from collections.abc import Sequence

import flax.linen as nn
import jax

from jaxmatch.layers.dense import Dense
from jaxmatch.layers.parts import Parts

_HALF_VARIANCE = 1 / math.sqrt(2)  # keeps the variance of a sum of two (section 3.2)


class AugmentedResidual(nn.Module):
    """Eq. 1: beside the embeddings, the sum of the last two blocks' outputs."""

    features: int
    weight_normalization: str = "he"
    precision: str = "float32"

    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """-> <float32>[batch, length, features] and the embeddings."""
        if len(outputs) == 1:
            residual = outputs[0]  # Eq. 1 with o(0) = 0
        else:
            residual = (outputs[-1] + outputs[-2]) * _HALF_VARIANCE  # Eq. 1: o(n-1) + o(n-2), scaled when n >= 3
        return residual, embedded


class AugmentedRunningSum(nn.Module):
    """As the released code reads Eq. 1: all earlier outputs in a running sum. It is Eq. 1 up to three blocks."""

    features: int
    weight_normalization: str = "he"
    precision: str = "float32"

    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """-> <float32>[batch, length, features] and the embeddings."""
        residual = outputs[-1]
        if len(outputs) > 1:
            residual = (previous_input[0] + residual) * _HALF_VARIANCE
        return residual, embedded


class Residual(nn.Module):
    """The vanilla residual connection of the ablation: the block's output plus its input.

    As the released code has it, scaled and with the embedding mapped to the block's size. The paper (section 3.7) writes the sum of
    the last two blocks' outputs, with nothing before the first, and nothing mapped.
    """

    features: int
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """-> <float32>[batch, length, features]."""
        if len(outputs) == 1:
            # The input of the first block is the embedding, of another size.
            mapped = Dense(
                self.features,
                activated=False,
                weight_normalization=self.weight_normalization,
                precision=self.precision,
                name="projection",
            )(*previous_input)
            return ((outputs[-1] + mapped) * _HALF_VARIANCE,)
        return ((outputs[-1] + previous_input[0]) * _HALF_VARIANCE,)


class NoConnection(nn.Module):
    """The output of a block is the input of the next."""

    features: int
    weight_normalization: str = "he"
    precision: str = "float32"

    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """-> <float32>[batch, length, features]."""
        return (outputs[-1],)


CONNECTIONS = {
    "augmented": AugmentedResidual,
    "augmented_running_sum": AugmentedRunningSum,
    "residual": Residual,
    "none": NoConnection,
}
