"""ESAN: enhanced sentence alignment network (Hu et al., W-NUT 2020), its figure 1.

Both sentences go through the same parameters up to the pooling layer; a pair is one row of tokens (models/pairs.py). The paper
says that there is dropout, not where: here, as in RE2's code, words are dropped once for all that sees them, so is what the encoder gives,
and there is dropout before every later layer whose weights are trained but the co-attention and the gates.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.augmentation import Augmentation
from jaxmatch.layers.coattention import CoAttention
from jaxmatch.layers.comparison import ComparisonFusion
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.parts import Parts, sizes
from jaxmatch.layers.perceptron import Perceptron
from jaxmatch.layers.pooling import mean_and_max
from jaxmatch.models.pairs import FeaturePairModel


class ContextualEncoder(nn.Module):
    """The encoding layer: bidirectional LSTMs on top of each other, whose outputs have the size of the word features.

    Arguments:
      layers: how many.
      forget_bias, precision: as in layers/lstm.py.
    """

    layers: int
    forget_bias: float
    precision: str

    @nn.compact
    def __call__(self, words: Parts, sentences: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        """words: parts of <float32>[batch, length, inputs] -> h <float32>[batch, length, size], size that of all inputs."""
        size = sum(sizes(words))
        for layer in range(self.layers):
            words = words if layer == 0 else Dropout().in_parts(words, dropout_rate)
            # Of an odd size, one direction has a state more than is handed on.
            lstm = Lstm(-(-size // 2), forget_bias=self.forget_bias, precision=self.precision, name=f"layer_{layer}")
            words = (lstm(words, sentences)[..., :size],)
        return Dropout()(*words, dropout_rate)


class EnhancedAlignment(nn.Module):
    """An enhanced alignment layer (section 2.2): augment, align, fuse.

    Arguments:
      augmentation: as in `ESAN`.
      precision: of the matrix products.
    """

    augmentation: str
    precision: str

    @nn.compact
    def __call__(
        self, sequence: jax.Array, features: dict[str, jax.Array], sentences: jax.Array, dropout_rate: jax.Array | None
    ) -> jax.Array:
        """sequence, features: <float32>[batch, length, size] each -> <float32>[batch, length, size]."""
        augmented = Augmentation(self.augmentation, self.precision, name="augmentation")(sequence, features)
        size = sequence.shape[-1]
        aligned = CoAttention(size, self.precision, name="alignment")(augmented, sentences)
        return ComparisonFusion(size, self.precision, name="fusion")((augmented,), (aligned,), dropout_rate)


class ESAN(FeaturePairModel):
    """The whole of figure 1, from words to logits.

    In the Quora setting (300-dimensional vectors, a character convolution of 100 filters, the defaults below) it trains 3.86M
    numbers; the paper's Table 5 prints 3.9M.

    Arguments:
      alignment_layers: enhanced alignment layers on top of each other, 2 or 3 in the paper.
      encoder_layers: LSTM layers of the encoder, 1 or 2 in the paper.
      hidden_size: of the hidden layer of Eq. 12, 150 to 300 in the paper.
      augmentation: 'gated' (Eq. 1 to 3), 'simple' (Eq. 4) or 'none' (the ablation "w/o Feat. Augment.").
      word_features: False is the ablation "w/o Word Feat.".
      contextual_features: False is the ablation "w/o Contextual Feat.".
      prediction: what Eq. 11 sees: 'full' is the paper's, 'symmetric' and 'simple' as in RE2.
      forget_bias: what the forget gates of the LSTMs over a sentence start at; the papers do not say (layers/lstm.py).
      and those of `FeaturePairModel`.
    """

    forget_bias: float = 0.0
    alignment_layers: int = 2
    encoder_layers: int = 1
    hidden_size: int = 150
    augmentation: str = "gated"
    word_features: bool = True
    contextual_features: bool = True
    prediction: str = "full"

    def setup(self):
        options = dict(precision=self.precision)
        self.words = self.word_layer(name="words")
        self.encode = ContextualEncoder(self.encoder_layers, self.forget_bias, **options, name="encoder")
        self.align = [
            EnhancedAlignment(self.augmentation, **options, name=f"alignment_{number}") for number in range(self.alignment_layers)
        ]
        self.predict = Perceptron(
            self.prediction, "dense", layers=2, features=self.hidden_size, outputs=self.outputs, **options, name="prediction"
        )
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layer: as `match` -> V'_a and V'_b of Eq. 9 and 10, <float32>[batch, 2 * size] each."""
        words = self.dropout.in_parts(self.words(tokens, vectors), dropout_rate)
        sequence = contextual = self.encode(words, sentences, dropout_rate)
        features = {"word": jnp.concatenate(words, axis=-1)} if self.word_features else {}
        for number, layer in enumerate(self.align):
            if number == 1 and self.contextual_features:  # the first layer is given the contextual features themselves
                features = {**features, "contextual": contextual}
            sequence = layer(sequence, features, sentences, dropout_rate)
        return mean_and_max(sequence, sentences == 1), mean_and_max(sequence, sentences == 2)
