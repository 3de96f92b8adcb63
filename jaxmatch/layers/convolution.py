"""A convolution along a sentence, as matrix products.

`lax.conv` turns into a grouped convolution under vmap, which is several times slower than the same work as matrix products and
adds all-gathers when sharded; no convolution may be left in a compiled step.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.dense import gelu
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.weights import normalized_kernel


def convolve(inputs: jax.Array, kernel: jax.Array, precision: str) -> jax.Array:
    """Correlates along the length, with zeros beyond both ends ("same" padding).

    Arguments:
      inputs: <float32>[..., length, inputs].
      kernel: <float32>[width, inputs, features], width odd.
      precision: of the matrix products.

    Returns:
      <float32>[..., length, features].
    """
    width, length = kernel.shape[0], inputs.shape[-2]
    beyond = [(0, 0)] * (inputs.ndim - 2) + [(width // 2, width // 2), (0, 0)]
    padded = jnp.pad(inputs, beyond)
    return sum(matmul(padded[..., offset : offset + length, :], kernel[offset], precision) for offset in range(width))


class Convolution(nn.Module):
    """A weight-normalised convolution and GeLU.

    Arguments:
      features: number of outputs.
      width: number of tokens it sees; odd.
      weight_normalization: 'he', 'unit' or 'none' (layers/weights.py).
      precision: of the matrix products.
    """

    features: int
    width: int = 3
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """<float32>[batch, length, inputs] -> <float32>[batch, length, features]."""
        shape = (self.width, inputs.shape[-1], self.features)
        kernel = normalized_kernel(self, shape, activated=True, weight_normalization=self.weight_normalization)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return gelu(convolve(inputs, kernel, self.precision) + bias)
