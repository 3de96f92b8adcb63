"""DIIN: densely interactive inference network (Gong et al., ICLR 2018), figure 1 of its paper.

A pair is one row of tokens (models/pair_model.py). The first `grid_length` tokens of each sentence are taken from it,
and the words beyond are cut, as in the authors' code, which keeps 48. The grid of interactions therefore has one size,
whatever the lengths of the sentences and of the row. Places without a token are zeros in it, where the authors' code
has the outputs of its layers for padding.

Each sentence has its own self-attention and fuse gate, with separate parameters. The penalty on the difference of these
parameters is left out. Dropout is before each layer with weights, except the convolutions over characters and in the
dense blocks. The paper also has dropout after the word vectors; this model does not. Before a highway layer, dropout
also applies to the carried input. The embedding of a character has 20 numbers; 8 in the authors' code. Words match
exactly if they are equal apart from case; in the paper, if they have the same stem or lemma.

DIIN takes about 300 lines: this file, layers/self_attention.py, layers/interaction.py and layers/dense_net.py. It is
the only model here that computes on a grid of token pairs. No other model has the grid, the two-dimensional
convolutions and the self-attention with its fuse gate.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import DIINConfig
from jaxmatch.layers.dense_net import DenseBlock
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.highway import Highway
from jaxmatch.layers.interaction import Interaction, gather_sentence
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import of_scores
from jaxmatch.layers.parts import Parts
from jaxmatch.layers.self_attention import SelfAttention
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel


class Encoder(nn.Module):
    """The encoding layer: highway layers, which keep the size of the word features, and self-attention."""

    config: DIINConfig

    @nn.compact
    def __call__(
        self, words: Parts, is_token: tuple[jax.Array, jax.Array], dropout_rate: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        """Encodes parts of <float32>[batch, 2 * length, inputs] -> <float32>[batch, length, size] for each sentence.

        `is_token` is <bool>[batch, length] for each sentence, True where there is a token.
        """
        config = self.config
        whole = jnp.concatenate(words, axis=-1)
        highway = Highway(whole.shape[-1], config.highway_layers, config.precision, name="highway")
        sides = jnp.split(*highway((whole,), dropout_rate), 2, axis=1)
        first = SelfAttention(config.precision, name="attention_1")
        second = first if config.shared_encoder else SelfAttention(config.precision, name="attention_2")
        return tuple(
            attend(side, known, dropout_rate)
            for attend, side, known in zip((first, second), sides, is_token, strict=True)
        )


class DIIN(PairModel):
    """The DIIN model, from words to logits.

    In the setting for SNLI it has 4.38M trained parameters; RE2's Table 1 prints 4.4M. `sentence_vectors` returns one
    vector for the pair, the flattened feature map, which has 6 x 6 places for 48 tokens.
    """

    config: DIINConfig

    def setup(self):
        config = self.config
        self.words = WordFeatures(config)
        self.encode = Encoder(config, name="encoder")
        self.interact = Interaction(config, name="interaction")
        self.extract = [DenseBlock(config, name=f"block_{number}") for number in range(config.dense_blocks)]
        self.output = Linear(self.outputs, precision=of_scores(config.precision), name="output")
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array]:
        """Computes everything below the last layer from `match`'s arguments: <float32>[batch, places * channels]."""
        sides = [gather_sentence(tokens, sentences, which, self.config.grid_length) for which in (1, 2)]
        both = {name: jnp.concatenate([side[name] for side, _ in sides], axis=1) for name in tokens}
        is_token = tuple(known for _, known in sides)
        a, b = self.encode(self.words(both, vectors), is_token, dropout_rate)
        grid = self.interact(a, b, is_token, dropout_rate)
        for block in self.extract:
            grid = block(grid)
        return (grid.reshape(len(grid), -1),)

    def predict(self, features: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes the logits: <float32>[batch, places * channels] -> <float32>[batch, outputs]."""
        return self.output(self.dropout(features, dropout_rate))
