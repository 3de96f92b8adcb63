"""CAFE: compare, compress and propagate (Tay et al., EMNLP 2018), the single-layer model that CSRAN stacks.

As its released code has it where CSRAN's paper compares with it: a highway network, one CAFE block over the words, an LSTM, mean and max
pooling, and highway layers over both vectors, their product and their difference (dense layers in the authors' own command for
CAFE: model.head = "dense"). Left out is what that code adds to the block by default:
a factorisation machine over the six scalars, and the whole of the intra-aligned vector.
"""

import jax
import jax.numpy as jnp

from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.highway import Highway
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.perceptron import Perceptron
from jaxmatch.layers.pooling import mean_and_max
from jaxmatch.layers.refinement import AttentionRefinement
from jaxmatch.models.pairs import FeaturePairModel


class CAFE(FeaturePairModel):
    """From words to logits.

    Arguments:
      hidden_size: of a direction of the LSTM, and of the highway network.
      bidirectional: whether the LSTM also reads from the end; the released code's does not.
      highway_layers: of the input encoder; 0 leaves it out.
      factors: of the factorisation machines.
      prediction: what the prediction layers see: 'full', 'symmetric' or 'simple' (layers/prediction.py).
      head: their hidden layers, 'highway' or 'dense'.
      head_layers: prediction layers, the last included.
      head_size: of the hidden ones.
      forget_bias: what the forget gates of the LSTMs over a sentence start at; the papers do not say (layers/lstm.py).
      and those of `FeaturePairModel`.
    """

    character_features: int = 128
    hidden_size: int = 300
    forget_bias: float = 0.0
    bidirectional: bool = False
    highway_layers: int = 2
    factors: int = 10
    prediction: str = "full"
    head: str = "highway"
    head_layers: int = 3
    head_size: int = 300

    def setup(self):
        options = dict(precision=self.precision)
        self.words = self.word_layer(name="words")
        self.highway = Highway(self.hidden_size, self.highway_layers, **options)
        self.refine = AttentionRefinement(self.factors, **options, name="refinement")
        self.encode = Lstm(self.hidden_size, self.bidirectional, self.forget_bias, **options, name="encoder")
        self.predict = Perceptron(
            self.prediction, self.head, self.head_layers, self.head_size, self.outputs, **options, name="prediction"
        )
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layers: as `match` -> <float32>[batch, 2 * directions * hidden] each."""
        words = self.highway(self.words(tokens, vectors), dropout_rate)
        augmented = self.refine(jnp.concatenate(words, axis=-1), sentences)
        states = self.encode(self.dropout.in_parts(augmented, dropout_rate), sentences)
        return mean_and_max(states, sentences == 1), mean_and_max(states, sentences == 2)
