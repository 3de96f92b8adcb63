"""The prediction layer of RE2 (section 2.4): H, a two-layer feed-forward network over both pooled sentences."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.matmul import of_scores

# kind -> what of the two sentences' vectors H sees
PREDICTIONS = {
    "full": lambda a, b: [a, b, a - b, a * b],  # Eq. 5
    "symmetric": lambda a, b: [a, b, jnp.abs(a - b), a * b],  # Eq. 6
    "simple": lambda a, b: [a, b],  # Eq. 7
}


class Prediction(nn.Module):
    """Logits of the classes, or one number in regression.

    Arguments:
      kind: a key of `PREDICTIONS`.
      features: the model's hidden size.
      outputs: number of classes, or 1.
      weight_normalization, precision: as in layers/dense.py.
    """

    kind: str
    features: int
    outputs: int
    weight_normalization: str = "he"
    precision: str = "float32"

    @nn.compact
    def __call__(self, a: jax.Array, b: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """a, b: <float32>[batch, features] -> <float32>[batch, outputs]."""
        options = dict(weight_normalization=self.weight_normalization, precision=self.precision)
        seen = jnp.concatenate(PREDICTIONS[self.kind](a, b), axis=-1)
        hidden = Dense(self.features, **options, name="hidden")(Dropout()(seen, dropout_rate))
        # Never in bfloat16: a ranking must not tie what that cannot tell apart.
        options |= {"precision": of_scores(self.precision)}
        return Dense(self.outputs, activated=False, **options, name="output")(Dropout()(hidden, dropout_rate))
