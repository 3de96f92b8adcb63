"""The prediction layers of all models but RE2, as of ESAN (Eq. 11 and 12) and CSRAN (section 2.5): a perceptron over
both sentences' vectors.
"""

import flax.linen as nn
import jax

from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.highway import HighwayLayer
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import of_scores
from jaxmatch.layers.prediction import PREDICTIONS


class Perceptron(nn.Module):
    """Logits of the classes, or one number in regression. Dropout before every layer.

    Arguments:
      kind: what of the two vectors it sees, a key of `PREDICTIONS`.
      hidden_layer: 'dense' (with ReLU), 'tanh' (ESIM, BiMPM) or 'highway' (CAFE, and CSRAN's released run).
      layers: how many there are, the last, which gives the logits, included.
      features: of the layers before the last.
      outputs: number of classes, or 1.
      precision: of the matrix products.
    """

    kind: str
    hidden_layer: str
    layers: int
    features: int
    outputs: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, a: jax.Array, b: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """a, b: <float32>[batch, size] -> <float32>[batch, outputs]."""
        seen = tuple(PREDICTIONS[self.kind](a, b))
        options = dict(precision=self.precision)
        for layer in range(self.layers - 1):
            seen = Dropout().in_parts(seen, dropout_rate)
            if self.hidden_layer == "highway":
                seen = (HighwayLayer(self.features, **options, name=f"hidden_{layer}")(*seen),)
            else:
                activation = "tanh" if self.hidden_layer == "tanh" else "relu"
                seen = (Linear(self.features, activation, **options, name=f"hidden_{layer}")(*seen),)
        # Logits never in bfloat16, as in layers/prediction.py.
        return Linear(self.outputs, precision=of_scores(self.precision), name="output")(
            *Dropout().in_parts(seen, dropout_rate)
        )
