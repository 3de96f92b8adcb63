"""ESIM: the enhanced sequential inference model (Chen et al., ACL 2017), the left half of figure 1 of its paper.

The model encodes with a BiLSTM, aligns by the dot products of its states, compares, composes with a second BiLSTM,
pools and predicts. Both sentences share all parameters. A pair is one row of tokens (models/pair_model.py). The paper
also trains the word vectors; here they are fixed by default. In the paper's setting (300-dimensional vectors, the
defaults, three classes) the model has 4,326,303 trained parameters; RE2's Table 1 prints 4.3M. The tree LSTM of the
paper's HIM is left out because it needs parsed sentences.
"""

import jax

from jaxmatch.config.models import ESIMConfig
from jaxmatch.layers.attention import ComparisonFusion, DotProductAttention, mean_and_max
from jaxmatch.models.pair_model import PairModel


class ESIM(PairModel):
    """The ESIM model, from words to logits."""

    config: ESIMConfig

    def setup(self):
        super().setup()
        config = self.config
        self.encode = self.lstm("encoder")
        self.align = DotProductAttention(config.precision, name="alignment")
        self.compare = ComparisonFusion(config.hidden_size, config.precision, name="comparison")
        self.compose = self.lstm("composition")
        self.predict = self.perceptron("tanh", 2, config.hidden_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns [v_ave; v_max] of each sentence (Eq. 18 to 20), <float32>[batch, 4 * hidden] each."""
        words = self.dropout(self.words(tokens, vectors), dropout_rate)
        states = self.encode(words, sentences)  # Eq. 1 and 2
        aligned = self.align(states, (states,), sentences)  # Eq. 11 to 13
        compared = self.compare((states,), aligned, dropout_rate)  # Eq. 14 and 15, and F of Eq. 16 and 17
        composed = self.compose((self.dropout(compared, dropout_rate),), sentences)
        return mean_and_max(composed, sentences == 1), mean_and_max(composed, sentences == 2)
