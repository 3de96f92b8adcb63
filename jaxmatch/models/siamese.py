"""A siamese BiLSTM, which encodes each sentence without the other (Conneau et al., EMNLP 2017, figure 1).

Both sentences go through the same bidirectional LSTM and the maximum over time. The prediction layers see both vectors,
their absolute difference and their product. A pair is one row of tokens (models/pair_model.py). The paper's InferSent
has 2,048 features in each direction; the default here gives a model of the size of the others. Unlike InferSent, the
hidden prediction layer has ReLU, and the LSTM and both prediction layers have dropout before them.
"""

import jax

from jaxmatch.config.models import SiameseConfig
from jaxmatch.layers.attention import max_over_time
from jaxmatch.models.pair_model import PairModel


class Siamese(PairModel):
    """The siamese BiLSTM, from words to logits."""

    config: SiameseConfig

    def setup(self):
        super().setup()
        self.encode = [self.lstm(f"encoder_{layer}") for layer in range(self.config.encoder_layers)]
        self.predict = self.perceptron("dense", 2, self.config.head_size)

    def sentence_vectors(self, tokens, sentences, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """Returns u and v, <float32>[batch, 2 * hidden] each."""
        states = self.words(tokens, vectors)
        for lstm in self.encode:
            states = (lstm(self.dropout(states, dropout_rate), sentences),)
        return max_over_time(*states, sentences == 1), max_over_time(*states, sentences == 2)
