"""The fusion layer of RE2 (section 2.3): a sentence and what it was aligned with, compared and fused."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.gelu import gelu
from jaxmatch.layers.matmul import matmul_by_rows
from jaxmatch.layers.parts import Parts, sizes


class FullFusion(nn.Module):
    """Compares in three perspectives, each through a network of its own, and fuses them (Eq. 4).

    Arguments:
      features: the model's hidden size.
      dropout_placement: one of layers/dropout.py's `PLACEMENTS`.
      weight_normalization, precision: as in layers/dense.py.
    """

    features: int
    dropout_placement: str = "released"
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """own, aligned: parts of <float32>[batch, length, size] -> <float32>[batch, length, features]."""

        def network(name: str) -> Dense:
            return Dense(
                self.features, weight_normalization=self.weight_normalization, precision=self.precision, name=name
            )

        perspectives = {
            "concatenation": aligned,  # Eq. 4: G_1([a; a'])
            "difference": tuple(a - other for a, other in zip(own, aligned, strict=True)),  # Eq. 4: G_2([a; a - a'])
            "product": tuple(a * other for a, other in zip(own, aligned, strict=True)),  # Eq. 4: G_3([a; a * a'])
        }
        rows, biases = zip(*(network(name).weights(*sizes(own), *sizes(own)) for name in perspectives), strict=True)
        if self.dropout_placement == "every_layer" and dropout_rate is not None:
            # Each network drops its own of the numbers in `a`.
            inputs = [Dropout().in_parts((*own, *others), dropout_rate) for others in perspectives.values()]
            summed = jnp.concatenate([matmul_by_rows(*both, self.precision) for both in zip(inputs, rows, strict=True)], axis=-1)
        else:
            # All three see `a`: one product with their kernels side by side is faster than three.
            side_by_side = [jnp.concatenate(kernels, axis=-1) for kernels in list(zip(*rows, strict=True))[: len(own)]]
            seen = matmul_by_rows(own, side_by_side, self.precision)
            compared = [
                matmul_by_rows(others, kernels[len(own) :], self.precision)
                for others, kernels in zip(perspectives.values(), rows, strict=True)
            ]
            summed = seen + jnp.concatenate(compared, axis=-1)
        compared = gelu(summed + jnp.concatenate(biases))
        return network("output")(Dropout()(compared, dropout_rate))  # Eq. 4: G([a_1; a_2; a_3])


class SimpleFusion(nn.Module):
    """One network over both ("simple fusion" of the paper's Table 6): G_1 of Eq. 4 alone. Arguments as of `FullFusion`."""

    features: int
    dropout_placement: str = "released"
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """own, aligned: parts of <float32>[batch, length, size] -> <float32>[batch, length, features]."""
        network = Dense(
            self.features, weight_normalization=self.weight_normalization, precision=self.precision, name="output"
        )
        if self.dropout_placement == "every_layer":
            return network(*Dropout().in_parts((*own, *aligned), dropout_rate))
        return network(*own, *aligned)


FUSIONS = {"full": FullFusion, "simple": SimpleFusion}
