"""ESAN: enhanced sentence alignment network (Hu et al., W-NUT 2020), figure 1 of its paper.

Both sentences share all parameters up to the pooling layer. A pair is one row of tokens (models/pair_model.py). The
paper does not state where dropout is applied. Here it is applied as in RE2's code: once to the words, once to the
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
    """The encoding layer: stacked bidirectional LSTMs, whose outputs have the size of the word features."""

    config: ESANConfig

    @nn.compact
    def __call__(self, words: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Computes the contextual features h, <float32>[batch, length, size].

        `words` are parts of <float32>[batch, length, inputs]. The size of h is that of all inputs together.
        """
        size = sum(sizes(words))
        for layer in range(self.config.encoder_layers):
            words = words if layer == 0 else Dropout().in_parts(words, dropout_rate)
            # If the size is odd, the last feature of the second direction is cut off.
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
        """Applies the layer: `sequence` and `features`, all <float32>[batch, length, size] -> the same shape."""
        size, precision = sequence.shape[-1], self.config.precision
        augmented = Augmentation(self.config.augmentation, precision, name="augmentation")(sequence, features)
        aligned = CoAttention(size, precision, name="alignment")(augmented, sentences)
        return ComparisonFusion(size, precision, name="fusion")((augmented,), (aligned,), dropout_rate)


class ESAN(PairModel):
    """The ESAN model (the whole of figure 1), from words to logits.

    In the Quora setting (300-dimensional vectors, a character convolution of 100 filters, the default config) it has
    3.86M trained parameters; the paper's Table 5 prints 3.9M.
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
        """Computes everything below the prediction layer; the arguments are those of `match`.

        Returns:
          V'_a and V'_b (Eq. 9 and 10), <float32>[batch, 2 * size] each.
        """
        words = self.dropout.in_parts(self.words(tokens, vectors), dropout_rate)
        sequence = contextual = self.encode(words, sentences, dropout_rate)
        features = {"word": jnp.concatenate(words, axis=-1)} if self.config.word_features else {}
        for number, layer in enumerate(self.align):
            # The input of the first layer already is the contextual features.
            if number == 1 and self.config.contextual_features:
                features = {**features, "contextual": contextual}
            sequence = layer(sequence, features, sentences, dropout_rate)
        return mean_and_max(sequence, sentences == 1), mean_and_max(sequence, sentences == 2)
