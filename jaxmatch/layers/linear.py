"""A dense layer as ESAN and CSRAN have it: Glorot-initialised (CSRAN, section 3.2), not weight-normalised."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import matmul_in_parts, over_features
from jaxmatch.layers.parts import sizes

ACTIVATIONS = {"none": lambda values: values, "relu": nn.relu, "sigmoid": nn.sigmoid, "tanh": jnp.tanh}


class Linear(nn.Module):
    """`activation([part; ...; part] @ kernel + bias)`.

    Arguments:
      features: number of outputs.
      activation: a key of `ACTIVATIONS`.
      use_bias: whether there is a bias.
      precision: of the matrix product.
    """

    features: int
    activation: str = "none"
    use_bias: bool = True
    precision: str = "float32"

    @nn.compact
    def __call__(self, *parts: jax.Array) -> jax.Array:
        """parts: <float32>[..., inputs of the part], as if concatenated -> <float32>[..., features]."""
        shape = (sum(sizes(parts)), self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        outputs = matmul_in_parts(parts, kernel, self.precision)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, shape[-1:], jnp.float32)
            outputs = outputs + over_features(bias, outputs)
        return ACTIVATIONS[self.activation](outputs)
