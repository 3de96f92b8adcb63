"""The fusion layer of RE2 (section 2.3): a sentence and what it was aligned with, compared and fused."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.gelu import gelu
from jaxmatch.layers.matmul import matmul_by_rows, over_features
from jaxmatch.layers.parts import Parts, sizes


def _difference(own: Parts, aligned: Parts) -> Parts:
    return tuple(a - other for a, other in zip(own, aligned, strict=True))


def _product(own: Parts, aligned: Parts) -> Parts:
    return tuple(a * other for a, other in zip(own, aligned, strict=True))


# Used as written only in training with dropout_placement=every_layer. Else `_together` computes Eq. 4.
PERSPECTIVES = {
    "concatenation": lambda own, aligned: aligned,  # Eq. 4: G_1([a; a'])
    "difference": _difference,  # Eq. 4: G_2([a; a - a'])
    "product": _product,  # Eq. 4: G_3([a; a * a'])
}


def _together(own: Parts, aligned: Parts, rows: Sequence[Sequence[jax.Array]], precision: str) -> jax.Array:
    """What the networks of Eq. 4 sum before their activation, without their biases.

    All three see `a`, and two see `a'`: one product with kernels side by side is faster than three. With the rows W and
    W' of G_2's kernel, W a + W' (a - a') = (W + W') a - W' a', so that the difference is never made.

    Arguments:
      own, aligned: parts of <float32>[batch, length, size], the tokens a and what they were aligned with, a'.
      rows: of the networks in the order of `PERSPECTIVES`, each part's rows of the kernel, <float32>[size, features].
      precision: of the matrix products.

    Returns:
      <float32>[batch, length, 3 * features].
    """
    (first, first_aligned), (second, difference), (third, product) = (
        (each[: len(own)], each[len(own) :]) for each in rows
    )
    # Eq. 4: the sums in G_1, G_2 and G_3, side by side.
    of_own = [
        jnp.concatenate([one, two + less, three], axis=-1)
        for one, two, less, three in zip(first, second, difference, third, strict=True)
    ]
    of_aligned = [jnp.concatenate([one, -less], axis=-1) for one, less in zip(first_aligned, difference, strict=True)]
    seen = matmul_by_rows(own, of_own, precision)
    compared = matmul_by_rows(aligned, of_aligned, precision)
    multiplied = matmul_by_rows(PERSPECTIVES["product"](own, aligned), product, precision)
    return seen + jnp.concatenate([compared, multiplied], axis=-1)


class FullFusion(nn.Module):
    """Compares in three perspectives, each through a network of its own, and fuses them (Eq. 4)."""

    config: RE2Config

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """own, aligned: parts of <float32>[batch, length, size] -> <float32>[batch, length, hidden]."""

        def network(name: str) -> Dense:
            return Dense(self.config, self.config.hidden_size, name=name)

        precision = self.config.precision
        rows, biases = zip(*(network(name).weights(*sizes(own), *sizes(own)) for name in PERSPECTIVES), strict=True)
        if self.config.dropout_placement == "every_layer" and dropout_rate is not None:
            # Each network drops its own of the numbers in `a`.
            inputs = [
                Dropout().in_parts((*own, *compare(own, aligned)), dropout_rate) for compare in PERSPECTIVES.values()
            ]
            summed = jnp.concatenate(
                [matmul_by_rows(*both, precision) for both in zip(inputs, rows, strict=True)], axis=-1
            )
        else:
            summed = _together(own, aligned, rows, precision)
        compared = gelu(summed + over_features(jnp.concatenate(biases), summed))
        return network("output")(Dropout()(compared, dropout_rate))  # Eq. 4: G([a_1; a_2; a_3])


class SimpleFusion(nn.Module):
    """One network over both ("simple fusion" of the paper's Table 6): G_1 of Eq. 4 alone."""

    config: RE2Config

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """own, aligned: parts of <float32>[batch, length, size] -> <float32>[batch, length, hidden]."""
        network = Dense(self.config, self.config.hidden_size, name="output")
        if self.config.dropout_placement == "every_layer":
            return network(*Dropout().in_parts((*own, *aligned), dropout_rate))
        return network(*own, *aligned)


FUSIONS = {"full": FullFusion, "simple": SimpleFusion}
