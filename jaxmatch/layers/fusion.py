"""The fusion layer of RE2 (section 2.3): a sentence and what it was aligned with, compared and fused."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout


class FullFusion(nn.Module):
    """Compares in three perspectives, each through a network of its own, and fuses them (Eq. 4)."""

    features: int
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, own: jax.Array, aligned: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """own, aligned: <float32>[batch, length, size] -> <float32>[batch, length, features]."""

        def network(name: str) -> Dense:
            return Dense(
                self.features, weight_normalization=self.weight_normalization, precision=self.precision, name=name
            )

        perspectives = [
            network("concatenation")(own, aligned),  # Eq. 4: G_1([a; a'])
            network("difference")(own, own - aligned),  # Eq. 4: G_2([a; a - a'])
            network("product")(own, own * aligned),  # Eq. 4: G_3([a; a * a'])
        ]
        compared = Dropout()(jnp.concatenate(perspectives, axis=-1), dropout_rate)
        return network("output")(compared)  # Eq. 4: G([a_1; a_2; a_3])


class SimpleFusion(nn.Module):
    """One network over both ("simple fusion" of the paper's Table 6): G_1 of Eq. 4 alone."""

    features: int
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, own: jax.Array, aligned: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """own, aligned: <float32>[batch, length, size] -> <float32>[batch, length, features]."""
        network = Dense(
            self.features, weight_normalization=self.weight_normalization, precision=self.precision, name="output"
        )
        return network(own, aligned)


FUSIONS = {"full": FullFusion, "simple": SimpleFusion}
