"""BiMPM: bilateral multi-perspective matching (Wang et al., IJCAI 2017), figure 1 of its paper.

Both sentences share all parameters, also those of the matching and the aggregation layer. A pair is one row of tokens
(models/pair_model.py). Dropout follows every layer of the figure, as in section 4.1.

The model differs from the paper in the characters: an LSTM reads them in both directions, each of half the size
(model.characters=bilstm), where the paper has one direction. The hidden prediction layer has tanh, as in the authors'
code; the paper does not state its activation. That code also has parts that the paper does not have, and that are left
out here: highway layers, matching of the words themselves, and separate parameters for each direction of matching.

BiMPM takes about 200 lines: this file and layers/matching.py. Its four matching strategies are computed in different
ways. Each can be left out, and no other model has them.
"""

import jax
import jax.numpy as jnp

from jaxmatch.config import BiMPMConfig
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.matching import PerspectiveMatching
from jaxmatch.layers.pooling import final_states
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel


class BiMPM(PairModel):
    """The BiMPM model, from words to logits.

    In the paper's setting it has 678,163 trained parameters. RE2's Table 1 prints 1.6M. The authors' first code has
    that many, with its highway layers, 10 perspectives and 100 character features.
    """

    config: BiMPMConfig

    def setup(self):
        config = self.config
        self.words = WordFeatures(config)
        self.context = self.lstm("context")
        self.match_forward = PerspectiveMatching(config, name="matching_forward")
        self.match_backward = PerspectiveMatching(config, name="matching_backward")
        self.aggregate = self.lstm("aggregation")
        self.predict = self.perceptron("tanh", 2, config.head_size, "simple")
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Computes everything below the prediction layer; the arguments are those of `match`.

        Returns:
          the last states of the aggregation layer for each sentence, <float32>[batch, 2 * hidden] each.
        """
        words = self.dropout.in_parts(self.words(tokens, vectors), dropout_rate)
        states = self.dropout(self.context(words, sentences), dropout_rate)
        matched = self.dropout.in_parts(self._matched(states, sentences), dropout_rate)
        aggregated = self.aggregate(matched, sentences)
        return tuple(final_states(aggregated, sentences == which) for which in (1, 2))

    def _matched(self, states: jax.Array, sentences: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Applies the matching layer: <float32>[batch, length, 2 * hidden] -> two of [batch, length, matchings]."""
        last_of_first, last_of_second = (final_states(states, sentences == which) for which in (1, 2))
        opposite = jnp.where((sentences == 1)[..., None], last_of_second[:, None], last_of_first[:, None])
        (forward, backward), (end, start) = (jnp.split(one, 2, axis=-1) for one in (states, opposite))
        return self.match_forward(forward, end, sentences), self.match_backward(backward, start, sentences)
