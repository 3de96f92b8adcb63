"""The dense layer of ESAN and CSRAN: Glorot-initialized (CSRAN, section 3.2), not weight-normalized."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import matmul_in_parts, over_features
from jaxmatch.layers.parts import sizes

ACTIVATIONS = {"none": lambda values: values, "relu": nn.relu, "sigmoid": nn.sigmoid, "tanh": jnp.tanh}


class Linear(nn.Module):
    """A dense layer: `activation([part; ...; part] @ kernel + bias)`.

    Arguments:
      features: the number of outputs.
      activation: the activation, a key of `ACTIVATIONS`.
      use_bias: whether there is a bias.
      precision: the precision of the matrix product.
    """

    features: int
    activation: str = "none"
    use_bias: bool = True
    precision: str = "float32"

    @nn.compact
    def __call__(self, *parts: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of parts of <float32>[..., inputs] -> <float32>[..., features]."""
        shape = (sum(sizes(parts)), self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        outputs = matmul_in_parts(parts, kernel, self.precision)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, shape[-1:], jnp.float32)
            outputs = outputs + over_features(bias, outputs)
        return ACTIVATIONS[self.activation](outputs)
