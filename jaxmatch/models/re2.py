"""RE2: simple and effective text matching with richer alignment features (Yang et al., ACL 2019), figure 1 of
its paper.

Up to the pooling layer, both sentences share all parameters. A pair is therefore one row of tokens, the second sentence
after the first: every token-wise layer is one product over both, and rows need padding at one end only. Convolution,
alignment and pooling get the sentence of each token as an argument.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.layers.alignment import Alignment
from jaxmatch.layers.connection import CONNECTIONS
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.encoder import ConvolutionalEncoder
from jaxmatch.layers.fusion import FUSIONS
from jaxmatch.layers.parts import Parts
from jaxmatch.layers.pooling import max_over_time
from jaxmatch.layers.prediction import PredictionLayer
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel


class Block(nn.Module):
    """A dashed box of figure 1: encodes and aligns both sentences, and fuses each with its aligned representation."""

    config: RE2Config

    def setup(self):
        self.encoder = ConvolutionalEncoder(self.config)
        self.align = Alignment(self.config, name="alignment")
        self.fuse = FUSIONS[self.config.fusion](self.config, name="fusion")

    def __call__(self, sequence: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes o(n), <float32>[batch, length, hidden], from x(n), parts of <float32>[batch, length, inputs].

        The rows of x(n) and o(n) hold the tokens of both sentences.
        """
        encoded = self.encoder(sequence, sentences, dropout_rate)
        # The ablation "w/o enc-in" passes on the contextual features alone.
        sequence = (*sequence, encoded) if self.config.encoder_input else (encoded,)
        aligned = self.align(sequence, sentences, dropout_rate)
        return self.fuse(sequence, aligned, dropout_rate)


class RE2(PairModel):
    """The RE2 model (the whole of figure 1), from word ids to logits.

    Both sentences share all parameters but the prediction layer's. The paper uses only the vector of a word; the other
    features that a config requests become part of the embedding.
    """

    config: RE2Config

    def setup(self):
        self.words = WordFeatures(self.config)
        self.block = [Block(self.config, name=f"blocks_{number}") for number in range(self.config.blocks)]
        self.connect = CONNECTIONS[self.config.connection](self.config, name="connection")
        self.predict = PredictionLayer(self.config, self.outputs, name="prediction")
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Computes everything below the prediction layer; the arguments are those of `match`.

        Returns:
          v_1 and v_2 of Eq. 5, <float32>[batch, hidden] each.
        """
        words = self.words(tokens, vectors)
        embedded = words[0] if len(words) == 1 else jnp.concatenate(words, axis=-1)
        if self.config.dropout_placement == "released":
            embedded = self.dropout(embedded, dropout_rate)
        output = (self._parallel if self.config.parallel_blocks else self._stacked)(embedded, sentences, dropout_rate)
        return max_over_time(output, sentences == 1), max_over_time(output, sentences == 2)

    def _stacked(self, embedded, sentences, dropout_rate):
        """Returns the output of the last of the consecutive blocks."""
        block_input, outputs = (embedded,), []
        for block in self.block:
            if outputs:
                block_input = self.connect(embedded, block_input, outputs)
            outputs.append(block(block_input, sentences, dropout_rate))
        return outputs[-1]

    def _parallel(self, embedded, sentences, dropout_rate):
        """Returns the sum of the outputs of blocks that all see the embeddings."""
        return sum(block((embedded,), sentences, dropout_rate) for block in self.block)
