"""The connections between the blocks of RE2 (section 2.1).

A connection computes x(n), the input of the n-th block, for n >= 2. It is called with the embeddings x(1), the input
x(n-1) of the previous block in parts, and the outputs o(1) ... o(n-1) of all previous blocks. All are
<float32>[batch, length, ...]. It returns x(n) in parts (layers/parts.py).
"""

import math
from collections.abc import Sequence

import flax.linen as nn
import jax

from jaxmatch.config import RE2Config
from jaxmatch.layers.dense import Dense
from jaxmatch.layers.parts import Parts

_HALF_VARIANCE = 1 / math.sqrt(2)  # keeps the variance of a sum of two arrays (section 3.2)


def _last_two(outputs: Sequence[jax.Array]) -> jax.Array:
    """Computes o(n-1) + o(n-2) of Eq. 1, <float32>[batch, length, hidden].

    The sum is scaled if n >= 3 (section 3.2); o(0) is 0.
    """
    return outputs[0] if len(outputs) == 1 else (outputs[-1] + outputs[-2]) * _HALF_VARIANCE


class AugmentedResidual(nn.Module):
    """The augmented residual connection of Eq. 1: the embeddings and the sum of the outputs of the last two blocks."""

    config: RE2Config

    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """Returns the residual, <float32>[batch, length, hidden], and the embeddings."""
        return _last_two(outputs), embedded


class AugmentedRunningSum(nn.Module):
    """The released code's reading of Eq. 1: a running sum of all earlier outputs. It is Eq. 1 up to three blocks."""

    config: RE2Config

    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """Returns the residual, <float32>[batch, length, hidden], and the embeddings."""
        residual = outputs[-1]
        if len(outputs) > 1:
            residual = (previous_input[0] + residual) * _HALF_VARIANCE
        return residual, embedded


class VanillaResidual(nn.Module):
    """The ablation "residual conn." (section 3.7): Eq. 1 without the embeddings."""

    config: RE2Config

    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """Returns the residual, <float32>[batch, length, hidden]."""
        return (_last_two(outputs),)


class VanillaRunningSum(nn.Module):
    """The same ablation in the PyTorch code: a block's output plus its input. The input of the first block, the
    embeddings, is mapped to the size of the output.
    """

    config: RE2Config

    @nn.compact
    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """Returns the sum, <float32>[batch, length, hidden]."""
        if len(outputs) == 1:
            # The input of the first block is the embeddings, which have another size.
            mapped = Dense(self.config, self.config.hidden_size, activated=False, name="projection")(*previous_input)
            return ((outputs[-1] + mapped) * _HALF_VARIANCE,)
        return ((outputs[-1] + previous_input[0]) * _HALF_VARIANCE,)


class VanillaProjected(nn.Module):
    """The same ablation in the TensorFlow code: a block's output plus its input. The output is mapped to the size of
    the input if the sizes differ.
    """

    config: RE2Config

    @nn.compact
    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """Returns the sum, <float32>[batch, length, size of the embeddings]."""
        output, (previous,) = outputs[-1], previous_input
        if output.shape[-1] != previous.shape[-1]:
            output = Dense(self.config, previous.shape[-1], activated=False, name=f"projection_{len(outputs)}")(output)
        return ((output + previous) * _HALF_VARIANCE,)


class NoConnection(nn.Module):
    """No connection: the output of a block is the input of the next."""

    config: RE2Config

    def __call__(self, embedded: jax.Array, previous_input: Parts, outputs: Sequence[jax.Array]) -> Parts:
        """Returns the last output, <float32>[batch, length, hidden]."""
        return (outputs[-1],)


CONNECTIONS = {
    "augmented": AugmentedResidual,
    "augmented_running_sum": AugmentedRunningSum,
    "vanilla": VanillaResidual,
    "vanilla_running_sum": VanillaRunningSum,
    "vanilla_projected": VanillaProjected,
    "none": NoConnection,
}
