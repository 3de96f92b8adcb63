"""DIIN: densely interactive inference network (Gong et al., ICLR 2018), its figure 1.

A pair is one row of tokens (models/pair_model.py); the first `grid_length` tokens of each sentence are taken out of it,
and words beyond are cut, as by the authors, who keep 48. The grid of interactions therefore has one size, whatever the
lengths of the sentences and of the row: places without a token are zeros in it, where the authors' code has what its
layers make of padding. Self-attention, fuse gate and their parameters are each sentence's own; the penalty on their
difference is left out. Dropout is before each layer with weights except the convolutions over characters and of the
dense blocks, and not also after the word vectors, as in the paper; before a highway layer it is also on what that
carries. A character has 20 numbers, 8 in the authors' code. Words match exactly when they are equal in any case, in the
paper when they have one stem or lemma.

DIIN takes about 290 lines: this file, layers/self_attention.py, layers/interaction.py and layers/dense_net.py. It is
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
from jaxmatch.layers.interaction import Interaction, gathered
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import of_scores
from jaxmatch.layers.parts import Parts
from jaxmatch.layers.self_attention import SelfAttention
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel


class Encoder(nn.Module):
    """The encoding layer: highway layers that keep the size of the words, and self-attention."""

    config: DIINConfig

    @nn.compact
    def __call__(
        self, words: Parts, is_token: tuple[jax.Array, jax.Array], dropout_rate: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        """words: parts of <float32>[batch, 2 * length, inputs], is_token: <bool>[batch, length] of each sentence ->
        <float32>[batch, length, size] of each.
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
    """From words to logits.

    In the setting for SNLI it trains 4.38M numbers; RE2's Table 1 prints 4.4M. `sentence_vectors` is the one vector of
    the pair, the flattened feature map: of 48 tokens 6 x 6 places are left.
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
        """All below the last layer: as `match` -> <float32>[batch, places * channels]."""
        sides = [gathered(tokens, sentences, which, self.config.grid_length) for which in (1, 2)]
        both = {name: jnp.concatenate([side[name] for side, _ in sides], axis=1) for name in tokens}
        is_token = tuple(known for _, known in sides)
        a, b = self.encode(self.words(both, vectors), is_token, dropout_rate)
        grid = self.interact(a, b, is_token, dropout_rate)
        for block in self.extract:
            grid = block(grid)
        return (grid.reshape(len(grid), -1),)

    def predict(self, features: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """<float32>[batch, places * channels] -> <float32>[batch, outputs]."""
        return self.output(self.dropout(features, dropout_rate))
