"""The encoder of an RE2 block: a multi-layer convolutional network with same padding (RE2, section 2)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.layers.convolution import Convolution
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.parts import Parts


class ConvolutionalEncoder(nn.Module):
    """The encoder, whose outputs are the contextual features of each token."""

    config: RE2Config

    def _layer(self, layer: int, sequence: Parts, sentences: jax.Array) -> jax.Array:
        widths = self.config.kernel_sizes
        features, outputs = self.config.hidden_size // len(widths), []
        for which, width in enumerate(widths):
            name = f"convolution_{layer}" + (f"_{which}" if len(widths) > 1 else "")
            outputs.append(Convolution(self.config, features, width, name=name)(sequence, sentences))
        return outputs[0] if len(outputs) == 1 else jnp.concatenate(outputs, axis=-1)

    @nn.compact
    def __call__(self, sequence: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Encodes each sentence of a row separately.

        Arguments:
          sequence: parts of <float32>[batch, length, inputs] (layers/parts.py).
          sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.
          dropout_rate: <float32>[], or None in evaluation.

        Returns:
          <float32>[batch, length, hidden].
        """
        before_every_layer = self.config.dropout_placement == "every_layer"
        for layer in range(self.config.encoder_layers):
            # The released code has no dropout before the first convolution. The input of the first convolution is the
            # embeddings after dropout, or the output of a block.
            if layer > 0 or before_every_layer:
                sequence = Dropout().in_parts(sequence, dropout_rate)
            sequence = (self._layer(layer, sequence, sentences),)
        return sequence[0] if before_every_layer else Dropout()(*sequence, dropout_rate)
