"""CAFE: compare, compress and propagate (Tay et al., EMNLP 2018), the single-layer model that CSRAN stacks.

The structure is that of the released code, as CSRAN's paper compares with it: a highway network, one CAFE block over
the words, an LSTM, mean and max pooling, and highway layers over both vectors, their product and their difference
(dense layers in the authors' own command for CAFE: model.head = "dense"). By default, the released code adds two parts
to the block, which are optional here: a factorization machine over the six features of the block
(model.meta_factors=4), and the aligned representation of each token in its own sentence (model.flow_intra).

The released code differs in these points. Its mask adds -1e-30, which masks nothing: padding takes part in its
attention, but not here. Its dropout is also on aligned vectors, and on pooled vectors before their product and
difference, not after; one mask serves all tokens. Its dense head has two layers for each of head_layers. Its LSTM
begins at a trained state with cuDNN; the authors name another for CAFE, whose forget gates have a bias of 1
(model.forget_bias). The characters of a word are read as in models/csran.py.
"""

import jax
import jax.numpy as jnp

from jaxmatch.config import CAFEConfig
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.highway import Highway
from jaxmatch.layers.pooling import mean_and_max
from jaxmatch.layers.refinement import AttentionRefinement
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel


class CAFE(PairModel):
    """The CAFE model, from words to logits."""

    config: CAFEConfig

    def setup(self):
        config = self.config
        self.words = WordFeatures(config)
        self.highway = Highway(config.hidden_size, config.highway_layers, config.precision)
        self.refine = AttentionRefinement(config, name="refinement")
        self.encode = self.lstm("encoder", config.bidirectional)
        self.predict = self.perceptron(config.head, config.head_layers, config.head_size)
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Computes everything below the prediction layers; the arguments are those of `match`.

        Returns:
          the pooled vector of each sentence, <float32>[batch, 2 * directions * hidden].
        """
        words = self.highway(self.words(tokens, vectors), dropout_rate)
        augmented = self.refine(jnp.concatenate(words, axis=-1), sentences)
        states = self.encode(self.dropout.in_parts(augmented, dropout_rate), sentences)
        return mean_and_max(states, sentences == 1), mean_and_max(states, sentences == 2)
