"""The prediction layer of RE2 (section 2.4): H, a two-layer feed-forward network over both pooled sentences."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.layers.dense import Dense
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.matmul import of_scores

# kind -> the inputs of H, computed from the vectors of both sentences
PREDICTIONS = {
    "full": lambda a, b: [a, b, a - b, a * b],  # Eq. 5
    "symmetric": lambda a, b: [a, b, jnp.abs(a - b), a * b],  # Eq. 6
    "simple": lambda a, b: [a, b],  # Eq. 7
}


class PredictionLayer(nn.Module):
    """The prediction layer, whose outputs are the logits of the classes, or one number in regression."""

    config: RE2Config
    outputs: int

    @nn.compact
    def __call__(self, a: jax.Array, b: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes the logits: a, b <float32>[batch, hidden] -> <float32>[batch, outputs]."""
        seen = jnp.concatenate(PREDICTIONS[self.config.prediction](a, b), axis=-1)
        hidden = Dense(self.config, self.config.hidden_size, name="hidden")(Dropout()(seen, dropout_rate))
        # The logits are never in bfloat16, whose rounding would cause ties in a ranking.
        precise = dataclasses.replace(self.config, precision=of_scores(self.config.precision))
        return Dense(precise, self.outputs, activated=False, name="output")(Dropout()(hidden, dropout_rate))
