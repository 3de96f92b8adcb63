"""A small transformer encoder over both sentences, trained from scratch: the modern baseline.

A pair is one sequence, in which each token attends to all tokens of both sentences (Vaswani et al., 2017; the sentences
are distinguished by an embedding as in BERT, Devlin et al., 2019). Layer normalization comes before each sublayer
(Xiong et al., 2020), so that training needs little warmup. Each sentence is pooled by mean and maximum. Only the word
vectors are pretrained. No paper has this setting.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import TransformerConfig
from jaxmatch.layers.attention import attention_weights, max_by_argmax, mean_over_time
from jaxmatch.layers.core import Dense, Dropout, dot_products, gelu, matmul
from jaxmatch.models.pair_model import PairModel

LONGEST_WAVE = 10_000.0


def positions(sentences: jax.Array) -> jax.Array:
    """Returns the position of each token in its sentence, from 0: <int8>[batch, length] -> <int32>[batch, length]."""
    first, second = (jnp.cumsum(sentences == which, axis=1) for which in (1, 2))
    return jnp.maximum(jnp.where(sentences == 1, first, second) - 1, 0)


def sinusoids(positions: jax.Array, size: int) -> jax.Array:
    """Computes the position encoding of Vaswani et al. (2017), section 3.5, with the sines before the cosines:
    <int32>[batch, length] -> <float32>[batch, length, size]. The size is even.
    """
    waves = jnp.exp(-math.log(LONGEST_WAVE) * jnp.arange(size // 2) / (size // 2))
    angles = positions[..., None] * waves[None, None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention of each token to all tokens of the pair."""

    config: TransformerConfig

    @nn.compact
    def __call__(self, sequence: jax.Array, is_token: jax.Array) -> jax.Array:
        """Applies the attention: <float32>[batch, length, hidden] -> the same shape.

        `is_token` is <bool>[batch, length], False at padding.
        """
        config, (batch, length, hidden) = self.config, sequence.shape
        projected = Dense(3 * hidden, precision=config.precision, name="projection")(sequence)
        by_head = projected.reshape(batch, length, 3, config.heads, hidden // config.heads)
        queries, keys, values = (jnp.swapaxes(by_head[:, :, part], 1, 2) for part in range(3))
        queries = (queries.astype(jnp.float32) / math.sqrt(queries.shape[-1])).astype(queries.dtype)
        scores = dot_products((queries,), (keys,), config.precision)
        allowed = is_token[:, None, :, None] & is_token[:, None, None, :]
        attended = matmul(attention_weights(scores, allowed, values.dtype), values, config.precision)
        attended = jnp.swapaxes(attended, 1, 2).reshape(batch, length, hidden)
        return Dense(hidden, precision=config.precision, name="output")(attended)


class Layer(nn.Module):
    """Attention and a feed-forward network, each with a residual connection."""

    config: TransformerConfig

    @nn.compact
    def __call__(self, sequence: jax.Array, is_token: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Applies the layer: <float32>[batch, length, hidden] -> the same shape."""
        config, dtype = self.config, sequence.dtype
        attended = MultiHeadAttention(config, name="attention")(nn.LayerNorm(dtype=dtype)(sequence), is_token)
        sequence = sequence + Dropout()(attended, dropout_rate)
        wide = Dense(config.feed_forward_size, precision=config.precision, name="wide")
        narrow = Dense(config.hidden_size, precision=config.precision, name="narrow")
        return sequence + Dropout()(narrow(gelu(wide(nn.LayerNorm(dtype=dtype)(sequence)))), dropout_rate)


class Transformer(PairModel):
    """The transformer model, from words to logits."""

    config: TransformerConfig

    def setup(self):
        super().setup()
        config = self.config
        self.project = Dense(config.hidden_size, precision=config.precision, name="projection")
        self.sentence_embedding = self.param(
            "sentence_embedding", nn.initializers.normal(0.02), (3, config.hidden_size), jnp.float32
        )
        self.layers = [Layer(config, name=f"layer_{number}") for number in range(config.encoder_layers)]
        self.normalize = nn.LayerNorm(name="normalization")
        self.predict = self.perceptron("dense", 2, config.hidden_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns the pooled vector of each sentence, <float32>[batch, 2 * hidden]."""
        sequence = self.project(*self.words(tokens, vectors))
        added = sinusoids(positions(sentences), self.config.hidden_size) + self.sentence_embedding[sentences]
        sequence = self.dropout(sequence + added.astype(sequence.dtype), dropout_rate)
        for layer in self.layers:
            sequence = layer(sequence, sentences > 0, dropout_rate)
        sequence = self.normalize(sequence)
        return tuple(
            jnp.concatenate([mean_over_time(sequence, mask), max_by_argmax(sequence, mask)], axis=-1)
            for mask in (sentences == 1, sentences == 2)
        )
