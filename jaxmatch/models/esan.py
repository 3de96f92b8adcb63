"""ESAN: enhanced sentence alignment network (Hu et al., W-NUT 2020), figure 1 of its paper.

Both sentences share all parameters up to the pooling layer. A pair is one row of tokens (models/pair_model.py). The
paper does not state where dropout is applied. Here it is applied as in RE2's code: once to the words, once to the
encoder's output, and before every later trained layer except co-attention and gates.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import ESANConfig
from jaxmatch.layers.attention import ComparisonFusion, align, mean_and_max
from jaxmatch.layers.core import Dense, Dropout, Features, dot_products, sizes
from jaxmatch.layers.lstm import Lstm
from jaxmatch.models.pair_model import PairModel


class ContextualEncoder(nn.Module):
    """The encoding layer: stacked bidirectional LSTMs, whose outputs have the size of the word features."""

    config: ESANConfig

    @nn.compact
    def __call__(self, words: Features, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """Returns the contextual features h, <float32>[batch, length, size]; `size` is that of all `words` together."""
        size = sum(sizes(words))
        for layer in range(self.config.encoder_layers):
            words = words if layer == 0 else Dropout()(words, dropout_rate)
            # If the size is odd, the last feature of the second direction is cut off.
            options = dict(forget_bias=self.config.forget_bias, precision=self.config.precision)
            lstm = Lstm(-(-size // 2), **options, name=f"layer_{layer}")
            words = (lstm(words, sentences)[..., :size],)
        return Dropout()(*words, dropout_rate)


class Augmentation(nn.Module):
    """Feature augmentation (section 2.2.1): the sum of a layer's input and word and contextual features, each through a
    gate of its own.

    `kind` is 'gated' (Eq. 1 to 3), 'simple' (Eq. 4, without gates) or 'none' (the ablation "w/o Feat. Augment.").
    """

    kind: str
    precision: str = "float32"

    @nn.compact
    def __call__(self, sequence: jax.Array, features: dict[str, jax.Array]) -> jax.Array:
        """Augments a sequence a, <float32>[batch, length, size], with features {'word': e, 'contextual': h}, or some of
        them, of the same shape.
        """
        if self.kind == "none" or not features:
            return sequence
        if self.kind == "simple":
            return sequence + sum(features.values())  # Eq. 4
        size, options = sequence.shape[-1], dict(precision=self.precision)
        # W_g is one matrix for both gates, so its product is computed once.
        shared = Dense(size, use_bias=False, **options, name="intermediate")(sequence)
        augmented = sequence
        for name, feature in features.items():
            # Eq. 1: g_e = sigmoid(W_g a + W_e e + z_e); Eq. 2: g_h = sigmoid(W_g a + W_h h + z_h)
            gate = nn.sigmoid(shared + Dense(size, **options, name=name)(feature))
            augmented = augmented + gate * feature  # Eq. 3
        return augmented


class CoAttention(nn.Module):
    """Co-attention (section 2.2.2): the alignment of each token with the tokens of the other sentence, weighted by
    products of ReLU projections of size `features`.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, sequence: jax.Array, sentences: jax.Array) -> jax.Array:
        """Returns the aligned representations a'_i and b'_j: <float32>[batch, length, size] -> the same shape."""
        # Eq. 5: e_ij = ReLU(W_c a_i)^T ReLU(W_c b_j), without a bias
        projected = Dense(self.features, "relu", use_bias=False, precision=self.precision, name="projection")(sequence)
        scores = dot_products((projected,), (projected,), self.precision)
        return align(self, scores, (sequence,), sentences, self.precision)[0]  # Eq. 6 and 7


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
        super().setup()
        config = self.config
        self.encode = ContextualEncoder(config, name="encoder")
        self.align = [EnhancedAlignment(config, name=f"alignment_{n}") for n in range(config.alignment_layers)]
        self.predict = self.perceptron("dense", 2, config.hidden_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns V'_a and V'_b (Eq. 9 and 10), <float32>[batch, 2 * size] each."""
        words = self.dropout(self.words(tokens, vectors), dropout_rate)
        sequence = contextual = self.encode(words, sentences, dropout_rate)
        features = {"word": jnp.concatenate(words, axis=-1)} if self.config.word_features else {}
        for number, layer in enumerate(self.align):
            # The input of the first layer already is the contextual features.
            if number == 1 and self.config.contextual_features:
                features = {**features, "contextual": contextual}
            sequence = layer(sequence, features, sentences, dropout_rate)
        return mean_and_max(sequence, sentences == 1), mean_and_max(sequence, sentences == 2)
