"""The comparison of a sequence with its aligned representation (ESAN, Eq. 8; CSRAN, Eq. 6)."""

import flax.linen as nn
import jax

from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.parts import Parts


def compared(own: Parts, aligned: Parts) -> Parts:
    """Returns [a; a'; a - a'; a * a'], each in parts like `own` and `aligned`: <float32>[batch, length, size]."""
    differences = tuple(mine - other for mine, other in zip(own, aligned, strict=True))
    products = tuple(mine * other for mine, other in zip(own, aligned, strict=True))
    return (*own, *aligned, *differences, *products)


class ComparisonFusion(nn.Module):
    """ESAN's fusion layer with dropout before it (Eq. 8): `relu(W_f [a; a'; a - a'; a * a'] + z_f)`.

    Arguments:
      features: the number of outputs.
      precision: the precision of the matrix product.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, own: Parts, aligned: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """Fuses `own` and `aligned`, parts of <float32>[batch, length, size] -> <float32>[batch, length, features]."""
        seen = Dropout().in_parts(compared(own, aligned), dropout_rate)
        return Linear(self.features, "relu", precision=self.precision, name="output")(*seen)
