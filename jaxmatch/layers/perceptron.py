"""The prediction layers of all models except RE2 and DIIN: a perceptron over the vectors of both sentences, as in ESAN
(Eq. 11 and 12) and CSRAN (section 2.5).
"""

import flax.linen as nn
import jax

from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.highway import HighwayLayer
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import of_scores
from jaxmatch.layers.prediction import PREDICTIONS


class Perceptron(nn.Module):
    """A perceptron whose outputs are the logits of the classes, or one number in regression.

    Every layer has dropout before it.

    Arguments:
      kind: the inputs that are computed from the two vectors, a key of `PREDICTIONS`.
      hidden_layer: the kind of the hidden layers: 'dense' (with ReLU), 'tanh' (ESIM, BiMPM) or 'highway' (CAFE, and
        CSRAN's released run).
      layers: the number of layers, including the last, which computes the logits.
      features: the number of outputs of each layer before the last.
      outputs: the number of classes, or 1 in regression.
      precision: the precision of the matrix products.
    """

    kind: str
    hidden_layer: str
    layers: int
    features: int
    outputs: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, a: jax.Array, b: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes the logits: a, b <float32>[batch, size] -> <float32>[batch, outputs]."""
        seen = tuple(PREDICTIONS[self.kind](a, b))
        options = dict(precision=self.precision)
        for layer in range(self.layers - 1):
            seen = Dropout().in_parts(seen, dropout_rate)
            if self.hidden_layer == "highway":
                seen = (HighwayLayer(self.features, **options, name=f"hidden_{layer}")(*seen),)
            else:
                activation = "tanh" if self.hidden_layer == "tanh" else "relu"
                seen = (Linear(self.features, activation, **options, name=f"hidden_{layer}")(*seen),)
        # Logits are never in bfloat16, as in layers/prediction.py.
        return Linear(self.outputs, precision=of_scores(self.precision), name="output")(
            *Dropout().in_parts(seen, dropout_rate)
        )
