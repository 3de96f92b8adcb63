"""RE2: simple and effective text matching with richer alignment features (Yang et al., ACL 2019), its figure 1.

Up to the pooling layer both sentences go through the same parameters, so a pair is one row of tokens, the second sentence
after the first: every token-wise layer is one product over both, and rows need padding at one end only. Convolution,
alignment and pooling are told which sentence a token is of.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.alignment import Alignment
from jaxmatch.layers.connection import CONNECTIONS
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.encoder import ConvolutionalEncoder
from jaxmatch.layers.fusion import FUSIONS
from jaxmatch.layers.parts import Parts
from jaxmatch.layers.pooling import max_over_time
from jaxmatch.layers.prediction import Prediction
from jaxmatch.models.pairs import FeaturePairModel


class Block(nn.Module):
    """A dashed box of figure 1: encode each sentence, align the two, fuse each with what it was aligned with.

    Arguments: as in `RE2`.
    """

    encoder_layers: int
    kernel_size: tuple[int, ...]
    hidden_size: int
    encoder_activation: str
    alignment: str
    fusion: str
    encoder_input: bool
    dropout_placement: str
    weight_normalization: str
    precision: str

    def setup(self):
        options = dict(weight_normalization=self.weight_normalization, precision=self.precision)
        self.encoder = ConvolutionalEncoder(
            self.hidden_size, self.encoder_layers, self.kernel_size, self.encoder_activation, self.dropout_placement, **options
        )
        self.align = Alignment(self.alignment, self.hidden_size, **options, name="alignment")
        self.fuse = FUSIONS[self.fusion](self.hidden_size, self.dropout_placement, **options, name="fusion")

    def __call__(self, sequence: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """x(n), parts of <float32>[batch, length, inputs] -> o(n) <float32>[batch, length, hidden], of both sentences."""
        encoded = self.encoder(sequence, sentences, dropout_rate)
        # The ablation "w/o enc-in" hands on the contextual features alone.
        sequence = (*sequence, encoded) if self.encoder_input else (encoded,)
        aligned = self.align(sequence, sentences, dropout_rate)
        return self.fuse(sequence, aligned, dropout_rate)


class RE2(FeaturePairModel):
    """The whole of figure 1, from word ids to logits. Both sentences share all parameters but the prediction layer's.

    The paper gives it nothing of a word but its vector; what else is asked for becomes part of the embedding.

    Arguments:
      outputs: number of classes, or 1 in regression.
      blocks: N, the number of blocks.
      encoder_layers: convolutions in a block's encoder.
      kernel_size: widths of a layer's convolutions, side by side; odd.
      hidden_size: size of every layer's output.
      encoder_activation: of the convolutions, 'gelu' (section 3.2) or 'relu' (the TensorFlow code).
      alignment: F of Eq. 2, 'linear' or 'identity'.
      fusion: 'full' (Eq. 4) or 'simple'.
      connection: 'augmented' (Eq. 1), 'augmented_running_sum', 'vanilla', 'vanilla_running_sum', 'vanilla_projected' or 'none'
        (layers/connection.py).
      prediction: 'full' (Eq. 5), 'symmetric' (Eq. 6) or 'simple' (Eq. 7).
      encoder_input: whether alignment and fusion see the encoder's input beside its output; False is the ablation "w/o enc-in".
      parallel_blocks: the ablation that feeds the embeddings to all blocks and sums what they give.
      dropout_placement: 'released' or 'every_layer', as the paper says (layers/dropout.py).
      weight_normalization: 'he', 'unit' or 'none' (layers/weights.py).
      and those of `FeaturePairModel`.
    """

    blocks: int = 2
    encoder_layers: int = 2
    kernel_size: tuple[int, ...] = (3,)
    hidden_size: int = 150
    encoder_activation: str = "gelu"
    alignment: str = "linear"
    fusion: str = "full"
    connection: str = "augmented"
    prediction: str = "full"
    encoder_input: bool = True
    parallel_blocks: bool = False
    dropout_placement: str = "released"
    weight_normalization: str = "he"

    def setup(self):
        options = dict(weight_normalization=self.weight_normalization, precision=self.precision)
        self.words = self.word_layer("words")
        self.block = [
            Block(
                self.encoder_layers,
                self.kernel_size,
                self.hidden_size,
                self.encoder_activation,
                self.alignment,
                self.fusion,
                self.encoder_input,
                self.dropout_placement,
                **options,
                name=f"blocks_{number}",
            )
            for number in range(self.blocks)
        ]
        self.connect = CONNECTIONS[self.connection](self.hidden_size, **options, name="connection")
        self.predict = Prediction(self.prediction, self.hidden_size, self.outputs, **options, name="prediction")
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layer: as `match` -> v_1 and v_2 of Eq. 5, <float32>[batch, hidden] each."""
        words = self.words(tokens, vectors)
        embedded = words[0] if len(words) == 1 else jnp.concatenate(words, axis=-1)
        if self.dropout_placement == "released":
            embedded = self.dropout(embedded, dropout_rate)
        output = (self._parallel if self.parallel_blocks else self._stacked)(embedded, sentences, dropout_rate)
        return max_over_time(output, sentences == 1), max_over_time(output, sentences == 2)

    def _stacked(self, embedded, sentences, dropout_rate):
        """The output of the last of the consecutive blocks."""
        block_input, outputs = (embedded,), []
        for block in self.block:
            if outputs:
                block_input = self.connect(embedded, block_input, outputs)
            outputs.append(block(block_input, sentences, dropout_rate))
        return outputs[-1]

    def _parallel(self, embedded, sentences, dropout_rate):
        """The sum of the outputs of blocks that all see the embeddings."""
        return sum(block((embedded,), sentences, dropout_rate) for block in self.block)
