"""ESAN: enhanced sentence alignment network (Hu et al., W-NUT 2020), its figure 1.

Both sentences go through the same parameters up to the pooling layer; a pair is one row of tokens
(models/pair_model.py). The paper does not say where dropout is. Here, as in RE2's code: once on the words, once on the
encoder's output, and before every later trained layer except co-attention and gates.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import ESANConfig
from jaxmatch.layers.augmentation import Augmentation
from jaxmatch.layers.coattention import CoAttention
from jaxmatch.layers.comparison import ComparisonFusion
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.parts import Parts, sizes
from jaxmatch.layers.pooling import mean_and_max
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel


class ContextualEncoder(nn.Module):
    """The encoding layer: bidirectional LSTMs on top of each other, whose outputs have the size of the word
    features.
    """

    config: ESANConfig

    @nn.compact
    def __call__(self, words: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """words: parts of <float32>[batch, length, inputs] -> h <float32>[batch, length, size], size that of all
        inputs.
        """
        size = sum(sizes(words))
        for layer in range(self.config.encoder_layers):
            words = words if layer == 0 else Dropout().in_parts(words, dropout_rate)
            # Of an odd size, one direction has a state more than is handed on.
            options = dict(forget_bias=self.config.forget_bias, precision=self.config.precision)
            lstm = Lstm(-(-size // 2), **options, name=f"layer_{layer}")
            words = (lstm(words, sentences)[..., :size],)
        return Dropout()(*words, dropout_rate)


class EnhancedAlignment(nn.Module):
    """An enhanced alignment layer (section 2.2): augment, align, fuse."""

    config: ESANConfig

    @nn.compact
    def __call__(
        self, sequence: jax.Array, features: dict[str, jax.Array], sentences: jax.Array, dropout_rate: jax.Array | None
    ) -> jax.Array:
        """sequence, features: <float32>[batch, length, size] each -> <float32>[batch, length, size]."""
        size, precision = sequence.shape[-1], self.config.precision
        augmented = Augmentation(self.config.augmentation, precision, name="augmentation")(sequence, features)
        aligned = CoAttention(size, precision, name="alignment")(augmented, sentences)
        return ComparisonFusion(size, precision, name="fusion")((augmented,), (aligned,), dropout_rate)


class ESAN(PairModel):
    """The whole of figure 1, from words to logits.

    In the Quora setting (300-dimensional vectors, a character convolution of 100 filters, the defaults below) it trains
    3.86M numbers; the paper's Table 5 prints 3.9M.
    """

    config: ESANConfig

    def setup(self):
        config = self.config
        self.words = WordFeatures(config)
        self.encode = ContextualEncoder(config, name="encoder")
        self.align = [
            EnhancedAlignment(config, name=f"alignment_{number}") for number in range(config.alignment_layers)
        ]
        self.predict = self.perceptron("dense", 2, config.hidden_size)
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layer: as `match` -> V'_a and V'_b (Eq. 9, 10), <float32>[batch, 2 * size] each."""
        words = self.dropout.in_parts(self.words(tokens, vectors), dropout_rate)
        sequence = contextual = self.encode(words, sentences, dropout_rate)
        features = {"word": jnp.concatenate(words, axis=-1)} if self.config.word_features else {}
        for number, layer in enumerate(self.align):
            if (
                number == 1 and self.config.contextual_features
            ):  # the first layer is given the contextual features themselves
                features = {**features, "contextual": contextual}
            sequence = layer(sequence, features, sentences, dropout_rate)
        return mean_and_max(sequence, sentences == 1), mean_and_max(sequence, sentences == 2)
