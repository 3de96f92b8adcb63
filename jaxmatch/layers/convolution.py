"""A convolution along a sentence, as matrix products.

`lax.conv` turns into a grouped convolution under vmap, which is several times slower than the same work as matrix
products and adds all-gathers when sharded; no convolution may be left in a compiled step.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.layers.gelu import gelu
from jaxmatch.layers.matmul import matmul_in_parts, over_features
from jaxmatch.layers.parts import Parts, sizes
from jaxmatch.layers.weights import normalized_kernel

# The paper and the PyTorch code of RE2 have GeLU; in its TensorFlow code only the dense layers do.
ACTIVATIONS = {"gelu": gelu, "relu": nn.relu}


def _shifted(values: jax.Array, distance: int) -> jax.Array:
    """<...>[batch, length, ...] whose place t holds what stood at t + distance; zeros beyond both ends."""
    length = values.shape[1]
    before, after = min(max(-distance, 0), length), min(max(distance, 0), length)
    padding = [(0, 0), (before, after)] + [(0, 0)] * (values.ndim - 2)
    return jnp.pad(values[:, after : length - before], padding)


def convolve(parts: Parts, kernel: jax.Array, sentences: jax.Array, precision: str) -> jax.Array:
    """Correlates along each sentence of a row, with zeros beyond both of its ends ("same" padding).

    One wide product gives what every token contributes to its neighbours; the contributions are then shifted to them
    and summed, unless a boundary lies between. A shift of the narrow outputs costs less than one of the inputs.

    Arguments:
      parts: of <float32>[batch, length, inputs] (layers/parts.py).
      kernel: <float32>[width, inputs, features], width odd.
      sentences: <int8>[batch, length], which sentence of the row a token is of; 0 is padding.
      precision: of the matrix product.

    Returns:
      <float32>[batch, length, features].
    """
    width, size, features = kernel.shape
    wide = jnp.swapaxes(kernel, 0, 1).reshape(size, width * features)
    contributions = jnp.split(matmul_in_parts(parts, wide, precision), width, axis=-1)
    total = contributions[width // 2]
    for offset in range(width):
        distance = offset - width // 2
        if distance:
            same_sentence = _shifted(sentences, distance) == sentences
            total = total + jnp.where(same_sentence[..., None], _shifted(contributions[offset], distance), 0.0)
    return total


class Convolution(nn.Module):
    """A weight-normalised convolution and its activation.

    Arguments:
      config: its `encoder_activation`, `weight_normalization` (layers/weights.py) and `precision` count.
      features: number of outputs.
      width: number of tokens it sees; odd.
    """

    config: RE2Config
    features: int
    width: int = 3

    @nn.compact
    def __call__(self, parts: Parts, sentences: jax.Array) -> jax.Array:
        """Parts of <float32>[batch, length, inputs] -> <float32>[batch, length, features]; `sentences` as in
        `convolve`.
        """
        shape = (self.width, sum(sizes(parts)), self.features)
        kernel = normalized_kernel(self, shape, activated=True, weight_normalization=self.config.weight_normalization)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        outputs = convolve(parts, kernel, sentences, self.config.precision)
        return ACTIVATIONS[self.config.encoder_activation](outputs + over_features(bias, outputs))
