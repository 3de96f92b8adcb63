"""The encoder of an RE2 block: a multi-layer convolutional network with same padding (RE2, section 2)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.convolution import Convolution
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.parts import Parts


class ConvolutionalEncoder(nn.Module):
    """Contextual features of each token.

    Arguments:
      features: number of outputs, shared evenly among the kernel sizes.
      layers: number of convolutions on top of each other.
      kernel_sizes: widths of the convolutions of a layer, side by side; odd.
      activation: of each convolution, a key of layers/convolution.py's `ACTIVATIONS`.
      dropout_placement: one of layers/dropout.py's `PLACEMENTS`.
      weight_normalization, precision: as in layers/convolution.py.
    """

    features: int
    layers: int
    kernel_sizes: tuple[int, ...] = (3,)
    activation: str = "gelu"
    dropout_placement: str = "released"
    weight_normalization: str = "he"
    precision: str = "float32"

    def _layer(self, layer: int, sequence: Parts, sentences: jax.Array) -> jax.Array:
        options = dict(activation=self.activation, weight_normalization=self.weight_normalization, precision=self.precision)
        features = self.features // len(self.kernel_sizes)
        if len(self.kernel_sizes) == 1:
            return Convolution(features, self.kernel_sizes[0], **options, name=f"convolution_{layer}")(sequence, sentences)
        beside = [
            Convolution(features, width, **options, name=f"convolution_{layer}_{which}")(sequence, sentences)
            for which, width in enumerate(self.kernel_sizes)
        ]
        return jnp.concatenate(beside, axis=-1)

    @nn.compact
    def __call__(self, sequence: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Encodes the sentences of a row, each for itself.

        Arguments:
          sequence: parts of <float32>[batch, length, inputs] (layers/parts.py).
          sentences: <int8>[batch, length], which sentence a token is of; 0 is padding.
          dropout_rate: <float32>[], or None in evaluation.

        Returns:
          <float32>[batch, length, features].
        """
        before_every_layer = self.dropout_placement == "every_layer"
        for layer in range(self.layers):
            # As released: the input of the first convolution is an embedding already dropped, or the output of a block.
            if layer > 0 or before_every_layer:
                sequence = Dropout().in_parts(sequence, dropout_rate)
            sequence = (self._layer(layer, sequence, sentences),)
        return sequence[0] if before_every_layer else Dropout()(*sequence, dropout_rate)
