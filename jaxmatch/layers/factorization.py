"""Factorization machines (Rendle, 2010; CSRAN, Eq. 3)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import matmul_in_parts, over_features
from jaxmatch.layers.parts import Parts, sizes


class FactorizationMachine(nn.Module):
    """A factorization machine, M(x) of Eq. 3: a bias, and weighted sums of the entries of x and of their products.

    The weight of the product of two entries is the inner product of their factors.

    Arguments:
      factors: k, the size of an entry's factor.
    """

    factors: int

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        """Computes M(x), where x is the concatenation of parts of <float32>[..., inputs] -> <float32>[..., 1]."""
        inputs = sum(sizes(parts))
        parts = tuple(part.astype(jnp.float32) for part in parts)
        bias = self.param("bias", nn.initializers.zeros, (1,), jnp.float32)
        linear = self.param("linear", nn.initializers.zeros, (inputs, 1), jnp.float32)
        factors = self.param("factors", nn.initializers.glorot_uniform(), (inputs, self.factors), jnp.float32)
        # Always in float32, also on an accelerator: the sum over pairs is the small difference of two large sums.
        weighted = matmul_in_parts(parts, jnp.concatenate([linear, factors], axis=-1), "highest")
        squared_norms = jnp.sum(factors * factors, axis=1, keepdims=True)
        squares = matmul_in_parts(tuple(part * part for part in parts), squared_norms, "highest")
        # Eq. 3 in time O(n k): sum_{i<j} <v_i, v_j> x_i x_j = (sum_f (sum_i v_if x_i)^2 - sum_i |v_i|^2 x_i^2) / 2
        pairs = 0.5 * (jnp.sum(jnp.square(weighted[..., 1:]), axis=-1, keepdims=True) - squares)
        return over_features(bias, pairs) + weighted[..., :1] + pairs
