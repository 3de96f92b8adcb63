"""The single-layer feed-forward network of RE2: a weight-normalized dense layer with an optional GeLU."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.layers import parts as parts_module
from jaxmatch.layers.gelu import gelu
from jaxmatch.layers.matmul import matmul_by_rows, over_features
from jaxmatch.layers.weights import normalized_kernel


class Dense(nn.Module):
    """A dense layer: `[part; ...; part] @ kernel + bias`, followed by GeLU if `activated`.

    Arguments:
      config: the settings, of which `weight_normalization` (layers/weights.py) and `precision` apply.
      features: the number of outputs.
      activated: whether GeLU follows; this also sets the scale of the initialization.
    """

    config: RE2Config
    features: int
    activated: bool = True

    @nn.compact
    def weights(self, *sizes: int) -> tuple[list[jax.Array], jax.Array]:
        """Declares the parameters of the layer for parts of the given sizes.

        Returns:
          the rows of the kernel for each part, <float32>[size, features]; and the bias, <float32>[features].
        """
        kernel = normalized_kernel(
            self,
            (sum(sizes), self.features),
            activated=self.activated,
            weight_normalization=self.config.weight_normalization,
        )
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return parts_module.split(kernel, sizes, axis=0), bias

    def __call__(self, *parts: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of parts of <float32>[..., inputs] -> <float32>[..., features]."""
        rows, bias = self.weights(*parts_module.sizes(parts))
        outputs = matmul_by_rows(parts, rows, self.config.precision)
        outputs = outputs + over_features(bias, outputs)
        return gelu(outputs) if self.activated else outputs
