"""Highway networks (Srivastava et al., 2015), in the input encoder of CSRAN (section 2.1)."""

import flax.linen as nn
import jax

from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.parts import Parts, sizes


class HighwayLayer(nn.Module):
    """A highway layer: `gate * relu(W_h x) + (1 - gate) * x`.

    If the sizes differ, the carried x is mapped to the size of the layer, as in CSRAN's code.

    Arguments:
      features: the number of outputs.
      precision: the precision of the matrix products.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, *parts: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of parts of <float32>[..., inputs] -> <float32>[..., features]."""
        options = dict(precision=self.precision)
        transformed = Linear(self.features, "relu", **options, name="transform")(*parts)
        gate = Linear(self.features, "sigmoid", **options, name="gate")(*parts)
        if sizes(parts) == (self.features,):
            carried = parts[0]
        else:
            carried = Linear(self.features, **options, name="carry")(*parts)
        return gate * transformed + (1 - gate) * carried


class Highway(nn.Module):
    """Highway layers on top of each other, with dropout before each.

    Arguments:
      features: the number of outputs of each layer.
      layers: the number of layers.
      precision: the precision of the matrix products.
    """

    features: int
    layers: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, parts: Parts, dropout_rate: jax.Array | None) -> Parts:
        """Applies the layers: parts of <float32>[..., inputs] -> one part of <float32>[..., features].

        Without layers, the parts are returned unchanged.
        """
        for layer in range(self.layers):
            parts = Dropout().in_parts(parts, dropout_rate)
            parts = (HighwayLayer(self.features, self.precision, name=f"layer_{layer}")(*parts),)
        return parts
