"""DecAtt: the decomposable attention model (Parikh et al., EMNLP 2016), its figure 1: attend, compare, aggregate.

It has no recurrence: but for the optional intra-sentence attention, the order of the words does not count. Both
sentences go through the same parameters; a pair is one row of tokens (models/pair_model.py). The paper projects word
vectors of length 1, which are not trained themselves. It also puts a NULL token before each sentence, which other words
may align with; here there is none. In the setting of its section 5.1 (300-dimensional vectors, the defaults) it trains
381,803 numbers, and with intra-sentence attention 582,215; its Table 1 prints 382K and 582K.

Unlike there, the last layer has dropout before it, weights begin as by Glorot and not with a deviation of 0.01, words
without a vector share zeros in place of 100 random vectors, and the bias of a distance does not depend on its sign.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import DecAttConfig
from jaxmatch.layers.attention import DotProductAttention, attention_weights, of_same_sentence
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts
from jaxmatch.layers.pooling import sum_over_time
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel

FARTHEST = 10  # all greater distances share a bias; section 3.4


class FeedForward(nn.Module):
    """Two layers with ReLU, dropout before each: F, G and F_intra of the paper."""

    config: DecAttConfig

    @nn.compact
    def __call__(self, parts: Parts, dropout_rate: jax.Array | None) -> jax.Array:
        """Parts of <float32>[batch, length, inputs], as if concatenated -> <float32>[batch, length, hidden]."""
        for layer in range(2):
            parts = Dropout().in_parts(parts, dropout_rate)
            size, precision = self.config.hidden_size, self.config.precision
            parts = (Linear(size, "relu", precision=precision, name=f"layer_{layer}")(*parts),)
        return parts[0]


class IntraAttention(nn.Module):
    """What each token finds in its own sentence (section 3.4)."""

    config: DecAttConfig

    @nn.compact
    def __call__(self, sequence: jax.Array, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """sequence <float32>[batch, length, hidden] -> the same shape."""
        seen = FeedForward(self.config, name="feed_forward")((sequence,), dropout_rate)
        scores = matmul(seen, jnp.swapaxes(seen, -1, -2), self.config.precision)
        distance_bias = self.param("distance_bias", nn.initializers.zeros, (FARTHEST + 2,), jnp.float32)
        # Counted in tokens: padding may lie between them.
        place = jnp.cumsum(sentences > 0, axis=1)
        distance = jnp.minimum(jnp.abs(place[:, :, None] - place[:, None, :]), FARTHEST + 1)
        scores = scores + distance_bias[distance].astype(scores.dtype)
        weights = attention_weights(scores, of_same_sentence(sentences))
        return matmul(weights, sequence, self.config.precision)


class DecAtt(PairModel):
    """From words to logits."""

    config: DecAttConfig

    def setup(self):
        config = self.config
        self.words = WordFeatures(config)
        self.project = Linear(config.hidden_size, use_bias=False, precision=config.precision, name="projection")
        if config.intra_attention:
            self.intra = IntraAttention(config, name="intra_attention")
        self.attend = FeedForward(config, name="attend")
        self.align = DotProductAttention(config.precision, name="alignment")
        self.compare = FeedForward(config, name="compare")
        self.predict = self.perceptron("dense", 3, config.hidden_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layers: as `match` -> v_1 and v_2 (section 3.3), <float32>[batch, hidden] each."""
        word, *others = self.words(tokens, vectors)
        squares = jnp.sum(jnp.square(word.astype(jnp.float32)), axis=-1, keepdims=True)
        # Bounded below the root, whose slope at 0, where padding is, is not finite.
        word = word / jnp.sqrt(jnp.maximum(squares, 1e-24)).astype(word.dtype)
        own = self.project(word, *others)
        own = (own, self.intra(own, sentences, dropout_rate)) if self.config.intra_attention else (own,)
        aligned = self.align(self.attend(own, dropout_rate), own, sentences)  # section 3.1: beta_i and alpha_j
        compared = self.compare((*own, *aligned), dropout_rate)  # section 3.2: v_1i and v_2j
        return sum_over_time(compared, sentences == 1), sum_over_time(compared, sentences == 2)
