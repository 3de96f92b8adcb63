"""A siamese BiLSTM: each sentence becomes a vector without a look at the other (Conneau et al., EMNLP 2017, figure 1).

Both sentences go through the same bidirectional LSTM and the maximum over time; the prediction layers see both vectors,
their absolute difference and their product. A pair is one row of tokens (models/pair_model.py). The paper's InferSent
has 2,048 features in each direction; the default here is of the size of the other models. Unlike there, the hidden
prediction layer has ReLU, and there is dropout before the LSTM and both prediction layers.
"""

import jax

from jaxmatch.config import SiameseConfig
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.pooling import max_over_time
from jaxmatch.layers.words import WordFeatures
from jaxmatch.models.pair_model import PairModel


class Siamese(PairModel):
    """From words to logits."""

    config: SiameseConfig

    def setup(self):
        config = self.config
        self.words = WordFeatures(config)
        self.encode = [self.lstm(f"encoder_{layer}") for layer in range(config.encoder_layers)]
        self.predict = self.perceptron("dense", 2, config.head_size)
        self.dropout = Dropout()

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layers: as `match` -> u and v, <float32>[batch, 2 * hidden] each."""
        states = self.words(tokens, vectors)
        for lstm in self.encode:
            states = (lstm(self.dropout.in_parts(states, dropout_rate), sentences),)
        return max_over_time(*states, sentences == 1), max_over_time(*states, sentences == 2)
