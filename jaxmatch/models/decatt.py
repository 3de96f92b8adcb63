"""DecAtt: the decomposable attention model (Parikh et al., EMNLP 2016), figure 1 of its paper.

The model attends, compares and aggregates. It has no recurrence: except in the optional intra-sentence attention, the
order of the words has no effect. Both sentences share all parameters. A pair is one row of tokens
(models/pair_model.py). As in the paper, word vectors are scaled to length 1 and projected; by default they are not
trained. In the setting of section 5.1 (300-dimensional vectors, the defaults), the model has 381,803 trained
parameters, and 582,215 with intra-sentence attention; the paper's Table 1 prints 382K and 582K.

The model differs from the paper in these points. The paper puts a NULL token before each sentence, with which words of
the other sentence may align; here no such token exists. The last layer has dropout before it. Weights have Glorot's
initialization, not a standard deviation of 0.01. Words without a vector are zeros, where the paper has 100 random
vectors. The bias of a distance does not depend on the sign of the distance.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import DecAttConfig
from jaxmatch.layers.attention import DotProductAttention, attention_weights, of_same_sentence, sum_over_time
from jaxmatch.layers.core import Dense, Dropout, Features, dot_products, matmul
from jaxmatch.models.pair_model import PairModel

FARTHEST = 10  # all greater distances share one bias; section 3.4


class FeedForward(nn.Module):
    """Two dense layers with ReLU and with dropout before each: F, G and F_intra of the paper."""

    config: DecAttConfig

    @nn.compact
    def __call__(self, inputs: Features, dropout_rate: jax.Array | None) -> jax.Array:
        """Applies both layers: <float32>[batch, length, size] each -> <float32>[batch, length, hidden]."""
        for layer in range(2):
            dense = Dense(self.config.hidden_size, "relu", precision=self.config.precision, name=f"layer_{layer}")
            inputs = (dense(*Dropout()(inputs, dropout_rate)),)
        return inputs[0]


class IntraAttention(nn.Module):
    """Intra-sentence attention: the aligned representation of each token in its own sentence (section 3.4)."""

    config: DecAttConfig

    @nn.compact
    def __call__(self, sequence: jax.Array, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Aligns each token with its own sentence: <float32>[batch, length, hidden] -> the same shape."""
        seen = FeedForward(self.config, name="feed_forward")((sequence,), dropout_rate)
        scores = dot_products((seen,), (seen,), self.config.precision)
        distance_bias = self.param("distance_bias", nn.initializers.zeros, (FARTHEST + 2,), jnp.float32)
        # Distances are counted in tokens, because padding may lie between them.
        position = jnp.cumsum(sentences > 0, axis=1)
        distance = jnp.minimum(jnp.abs(position[:, :, None] - position[:, None, :]), FARTHEST + 1)
        weights = attention_weights(scores + distance_bias[distance], of_same_sentence(sentences), sequence.dtype)
        return matmul(weights, sequence, self.config.precision)


class DecAtt(PairModel):
    """The DecAtt model, from words to logits."""

    config: DecAttConfig

    def setup(self):
        super().setup()
        config = self.config
        self.project = Dense(config.hidden_size, use_bias=False, precision=config.precision, name="projection")
        if config.intra_attention:
            self.intra = IntraAttention(config, name="intra_attention")
        self.attend = FeedForward(config, name="attend")
        self.align = DotProductAttention(config.precision, name="alignment")
        self.compare = FeedForward(config, name="compare")
        self.predict = self.perceptron("dense", 3, config.hidden_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns v_1 and v_2 (section 3.3), <float32>[batch, hidden] each."""
        word, *others = self.words(tokens, vectors)
        squares = jnp.sum(jnp.square(word.astype(jnp.float32)), axis=-1, keepdims=True)
        # The bound is inside the root: at 0, the vector of padding, the slope of the root is not finite.
        word = (word / jnp.sqrt(jnp.maximum(squares, 1e-24))).astype(word.dtype)
        own = self.project(word, *others)
        own = (own, self.intra(own, sentences, dropout_rate)) if self.config.intra_attention else (own,)
        aligned = self.align(self.attend(own, dropout_rate), own, sentences)  # section 3.1: beta_i and alpha_j
        compared = self.compare((*own, *aligned), dropout_rate)  # section 3.2: v_1i and v_2j
        return sum_over_time(compared, sentences == 1), sum_over_time(compared, sentences == 2)
