"""A convolution along a sentence, as matrix products.

Under vmap, `lax.conv` becomes a grouped convolution. It is several times slower than the same work as matrix products,
and adds all-gathers when sharded. No compiled step may contain a convolution.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import RE2Config
from jaxmatch.layers.core import Parts, gelu, matmul_in_parts, normalized_kernel, sizes

# The paper and the PyTorch code of RE2 use GeLU. The TensorFlow code uses it for dense layers only.
ACTIVATIONS = {"gelu": gelu, "relu": nn.relu}


def _shifted(values: jax.Array, distance: int) -> jax.Array:
    """Shifts <...>[batch, length, ...]: place t gets the value of place t + distance, or zero beyond the ends."""
    length = values.shape[1]
    before, after = min(max(-distance, 0), length), min(max(distance, 0), length)
    padding = [(0, 0), (before, after)] + [(0, 0)] * (values.ndim - 2)
    return jnp.pad(values[:, after : length - before], padding)


def convolve(parts: Parts, kernel: jax.Array, sentences: jax.Array, precision: str) -> jax.Array:
    """Computes a correlation along each sentence of a row, with zeros beyond its ends ("same" padding).

    One wide product computes the contributions of every token to itself and its neighbors. The contributions are then
    shifted to the neighbors and summed, except across the boundary of a sentence. Shifting the narrow outputs costs
    less than shifting the inputs.

    Arguments:
      parts: parts of <float32>[batch, length, inputs] (layers/core.py).
      kernel: <float32>[width, inputs, features], width odd.
      sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.
      precision: the precision of the matrix product.

    Returns:
      <float32>[batch, length, features].
    """
    width, size, features = kernel.shape
    wide = jnp.swapaxes(kernel, 0, 1).reshape(size, width * features)
    contributions = jnp.split(matmul_in_parts(parts, wide, precision, jnp.float32), width, axis=-1)
    total = contributions[width // 2]
    for offset in range(width):
        distance = offset - width // 2
        if distance:
            same_sentence = _shifted(sentences, distance) == sentences
            total = total + jnp.where(same_sentence[..., None], _shifted(contributions[offset], distance), 0.0)
    return total.astype(parts[0].dtype)


class Convolution(nn.Module):
    """A weight-normalized convolution and its activation.

    Arguments:
      config: the settings, of which `encoder_activation`, `weight_normalization` (layers/core.py) and `precision`
        apply.
      features: the number of outputs.
      width: the number of tokens that the convolution sees; odd.
    """

    config: RE2Config
    features: int
    width: int = 3

    @nn.compact
    def __call__(self, parts: Parts, sentences: jax.Array) -> jax.Array:
        """Applies the layer: parts of <float32>[batch, length, inputs] -> <float32>[batch, length, features].

        `sentences` is as in `convolve`.
        """
        shape = (self.width, sum(sizes(parts)), self.features)
        kernel = normalized_kernel(self, shape, activated=True, weight_normalization=self.config.weight_normalization)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        outputs = convolve(parts, kernel, sentences, self.config.precision)
        return ACTIVATIONS[self.config.encoder_activation](outputs + bias.astype(outputs.dtype))
