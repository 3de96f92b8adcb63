"""The single-layer feed-forward network of RE2: a weight-normalised dense layer, with GeLU where one follows."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.weights import normalized_kernel


def gelu(inputs: jax.Array) -> jax.Array:
    """GeLU in its tanh form (Hendrycks and Gimpel, 2016)."""
    return nn.gelu(inputs, approximate=True)


class Dense(nn.Module):
    """`inputs @ kernel + bias`, through GeLU if `activated`.

    Arguments:
      features: number of outputs.
      activated: whether GeLU follows; it also sets the scale of the initialisation.
      weight_normalization: 'he', 'unit' or 'none' (layers/weights.py).
      precision: of the matrix product.
    """

    features: int
    activated: bool = True
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """<float32>[..., inputs] -> <float32>[..., features]."""
        shape = (inputs.shape[-1], self.features)
        kernel = normalized_kernel(self, shape, activated=self.activated, weight_normalization=self.weight_normalization)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        outputs = matmul(inputs, kernel, self.precision) + bias
        return gelu(outputs) if self.activated else outputs
