"""The fusion layer of RE2 (section 2.3), which compares and fuses a sentence and its aligned representation."""

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


# The inputs of the networks of Eq. 4 besides `a`. All three are computed as written here only in training with
# dropout_placement=every_layer. Otherwise `_perspective_sums` computes the equation.
PERSPECTIVES = {
    "concatenation": lambda own, aligned: aligned,  # Eq. 4: G_1([a; a'])
    "difference": _difference,  # Eq. 4: G_2([a; a - a'])
    "product": _product,  # Eq. 4: G_3([a; a * a'])
}


def _perspective_sums(own: Parts, aligned: Parts, rows: Sequence[Sequence[jax.Array]], precision: str) -> jax.Array:
    """Computes the sums in G_1, G_2 and G_3 of Eq. 4, before their activations and without their biases.

    All three networks see `a`, and two see `a'`. One product with the kernels side by side is faster than three. With
    the rows W and W' of G_2's kernel, W a + W' (a - a') = (W + W') a - W' a', so the difference is never computed.

    Arguments:
      own, aligned: parts of <float32>[batch, length, size], the tokens a and their aligned representations a'.
      rows: for each network in the order of `PERSPECTIVES`, the rows of its kernel for each part,
        <float32>[size, features].
      precision: the precision of the matrix products.

    Returns:
      <float32>[batch, length, 3 * features].
    """
    # The rows for a, and the rows for the other input of each network: a', a - a' and a * a'.
    (own_1, aligned_1), (own_2, difference_2), (own_3, product_3) = (
        (kernel[: len(own)], kernel[len(own) :]) for kernel in rows
    )
    # Eq. 4: the sums in G_1, G_2 and G_3, side by side.
    own_rows = [
        jnp.concatenate([w1, w2 + d2, w3], axis=-1)
        for w1, w2, d2, w3 in zip(own_1, own_2, difference_2, own_3, strict=True)
    ]
    aligned_rows = [jnp.concatenate([w1, -d2], axis=-1) for w1, d2 in zip(aligned_1, difference_2, strict=True)]
    own_sums = matmul_by_rows(own, own_rows, precision)
    aligned_sums = matmul_by_rows(aligned, aligned_rows, precision)
    product_sums = matmul_by_rows(PERSPECTIVES["product"](own, aligned), product_3, precision)
    return own_sums + jnp.concatenate([aligned_sums, product_sums], axis=-1)


class FullFusion(nn.Module):
    """The full fusion (Eq. 4): comparisons in three perspectives, each through a network of its own, then fused."""

    config: RE2Config

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """Fuses `own` and `aligned`, parts of <float32>[batch, length, size] -> <float32>[batch, length, hidden]."""

        def network(name: str) -> Dense:
            return Dense(self.config, self.config.hidden_size, name=name)

        precision = self.config.precision
        rows, biases = zip(*(network(name).weights(*sizes(own), *sizes(own)) for name in PERSPECTIVES), strict=True)
        if self.config.dropout_placement == "every_layer" and dropout_rate is not None:
            # Each network has its own dropout of `a`.
            inputs = [
                Dropout().in_parts((*own, *compare(own, aligned)), dropout_rate) for compare in PERSPECTIVES.values()
            ]
            summed = jnp.concatenate(
                [matmul_by_rows(*both, precision) for both in zip(inputs, rows, strict=True)], axis=-1
            )
        else:
            summed = _perspective_sums(own, aligned, rows, precision)
        compared = gelu(summed + over_features(jnp.concatenate(biases), summed))
        return network("output")(Dropout()(compared, dropout_rate))  # Eq. 4: G([a_1; a_2; a_3])


class SimpleFusion(nn.Module):
    """The "simple fusion" of the paper's Table 6: G_1 of Eq. 4 alone, one network over a and a'."""

    config: RE2Config

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """Fuses `own` and `aligned`, parts of <float32>[batch, length, size] -> <float32>[batch, length, hidden]."""
        network = Dense(self.config, self.config.hidden_size, name="output")
        if self.config.dropout_placement == "every_layer":
            return network(*Dropout().in_parts((*own, *aligned), dropout_rate))
        return network(*own, *aligned)


FUSIONS = {"full": FullFusion, "simple": SimpleFusion}
