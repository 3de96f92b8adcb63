"""CSRAN: co-stack residual affinity networks (Tay et al., EMNLP 2018), its figure 1.

Both sentences go through the same parameters up to the pooling layer; a pair is one row of tokens (models/pairs.py). As in the
released code, a CAFE block stands before each LSTM layer of the stack, and dropout before every highway, LSTM and dense layer.
Unlike there, the LSTMs begin at zeros, not at trained states, dropout draws anew for each token, and the first prediction layer has dropout
before it, too.
"""

import jax
import jax.numpy as jnp

from jaxmatch.layers.affinity import bidirectional_alignment, co_stack_weights
from jaxmatch.layers.comparison import compared
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.highway import Highway
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.parts import Parts
from jaxmatch.layers.perceptron import Perceptron
from jaxmatch.layers.pooling import sum_over_time
from jaxmatch.layers.refinement import AttentionRefinement
from jaxmatch.models.pairs import FeaturePairModel

ALIGNED_LAYERS = ("all", "last")


class CSRAN(FeaturePairModel):
    """The whole of figure 1, from words to logits.

    In the setting of the released run it trains 14.5M numbers (the paper prints none; ESAN's figure 2 says more than 10M), most of
    them where the first aggregation LSTM meets the comparisons of all layers.

    Arguments:
      stacked_layers: k, LSTM layers of the stacked encoder, 1 to 5 in the paper.
      aggregation_layers: LSTM layers over the comparisons (Eq. 6 and 7), 1 or 2 in the paper.
      hidden_size: of a direction of every LSTM, and of the highway network.
      highway_layers: of the input encoder; 0 leaves it out. The paper has 2, the released run 1.
      refinement: the multi-level attention refinement (section 2.3); False is the ablation "w/o MAR".
      co_stack: the affinity of all layers (Eq. 4). False is the ablation "w/o CSRA": the affinity of the last layer alone. Both False
        is the stacked baseline of figure 2.
      aligned_layers: what Eq. 5 aligns where `co_stack` is False: 'all' layers of the stack ("the bidirectional alignment layer ...
        completely identical", section 3.5), or the 'last' alone, as the released code does. With `co_stack` it is all.
      factors: k of the factorisation machines (Eq. 3).
      prediction: what the prediction layers see: 'simple', z of Eq. 8; 'full' as the released code; or 'symmetric'.
      head: their hidden layers, 'dense' as in the paper or 'highway' as in the released run.
      head_layers: prediction layers, the last included, 1 to 3 in the paper.
      head_size: of the hidden ones.
      forget_bias: what the forget gates of the LSTMs over a sentence start at; the papers do not say (layers/lstm.py).
      and those of `FeaturePairModel`.
    """

    character_features: int = 128  # 64 of each direction in the released run
    forget_bias: float = 0.0
    stacked_layers: int = 3
    aggregation_layers: int = 1
    hidden_size: int = 200
    highway_layers: int = 2
    refinement: bool = True
    co_stack: bool = True
    aligned_layers: str = "all"
    factors: int = 10
    prediction: str = "simple"
    head: str = "dense"
    head_layers: int = 2
    head_size: int = 300

    def setup(self):
        options = dict(precision=self.precision)
        self.words = self.word_layer(name="words")
        self.highway = Highway(self.hidden_size, self.highway_layers, **options)
        self.refine = [
            AttentionRefinement(self.factors, **options, name=f"refinement_{number}")
            for number in range(self.stacked_layers if self.refinement else 0)
        ]
        self.stack = [self._lstm(f"stack_{number}") for number in range(self.stacked_layers)]
        self.aggregate = [self._lstm(f"aggregation_{number}") for number in range(self.aggregation_layers)]
        self.predict = Perceptron(
            self.prediction, self.head, self.head_layers, self.head_size, self.outputs, **options, name="prediction"
        )
        self.dropout = Dropout()

    def _lstm(self, name: str) -> Lstm:
        return Lstm(self.hidden_size, forget_bias=self.forget_bias, precision=self.precision, name=name)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layers: as `match` -> the two halves of z of Eq. 8, <float32>[batch, 2 * hidden] each."""
        sequence = self.highway(self.words(tokens, vectors), dropout_rate)
        own = self._stacked(sequence, sentences, dropout_rate)
        weights = co_stack_weights(own if self.co_stack else own[-1:], sentences, self.precision)
        self.sow("intermediates", "weights", weights)  # kept as in layers/alignment.py
        own = own if self.co_stack or self.aligned_layers == "all" else own[-1:]
        aligned = bidirectional_alignment(own, weights, self.precision)
        sequence = compared(own, aligned)
        for layer in self.aggregate:  # Eq. 6 and 7
            sequence = (layer(self.dropout.in_parts(sequence, dropout_rate), sentences),)
        return tuple(sum_over_time(sequence[0], sentences == which) for which in (1, 2))

    def _stacked(self, sequence: Parts, sentences: jax.Array, dropout_rate) -> Parts:
        """Eq. 1: the outputs of every layer of the stack, <float32>[batch, length, 2 * hidden] each."""
        outputs = []
        for number, layer in enumerate(self.stack):
            if self.refinement:
                sequence = self.refine[number](jnp.concatenate(sequence, axis=-1), sentences)
            sequence = (layer(self.dropout.in_parts(sequence, dropout_rate), sentences),)
            outputs += sequence
        return tuple(outputs)
