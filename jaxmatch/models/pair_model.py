"""The base class of all models. Their inputs are pairs of sentences, and features of each word."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config.models import ModelConfig
from jaxmatch.data.text import WordTable
from jaxmatch.layers.attention import Perceptron
from jaxmatch.layers.core import Dropout, jax_defaults
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.words import WordFeatures, with_characters


def pair_rows(a: dict[str, jax.Array], b: dict[str, jax.Array]) -> tuple[dict[str, jax.Array], jax.Array]:
    """Concatenates padded sentences, as in a call of `PairModel`, to `tokens` and `sentences` of `PairModel.match`."""
    tokens = {name: jnp.concatenate([a[name], b[name]], axis=1) for name in a}
    is_token_a, is_token_b = (jnp.asarray(side["ids"]) > 0 for side in (a, b))
    return tokens, jnp.concatenate([is_token_a.astype(jnp.int8), 2 * is_token_b.astype(jnp.int8)], axis=1)


class PairModel(nn.Module):
    """The base class of models of pairs of sentences. A subclass has these methods:

        sentence_vectors(tokens, sentences, vectors, dropout_rate) -> two arrays <float32>[batch, size]
            Computes everything below the prediction layer, with the arguments of `match`: a vector for the first
            sentence of each pair, and one for the second.
        predict(vector_a, vector_b, dropout_rate) -> <float32>[batch, outputs]
            Computes the logits with the prediction layer. Both vectors are <float32>[batch, size].

    Attributes:
      config: the settings of the model (jaxmatch/config/models.py).
      outputs: the number of classes, or 1 in regression.
    """

    config: ModelConfig
    outputs: int

    def setup(self):
        """Makes the layers that all models have. A subclass calls this before it makes its own."""
        self.words, self.dropout = WordFeatures(self.config), Dropout()

    def lstm(self, name: str, bidirectional: bool = True) -> Lstm:
        """Returns an LSTM layer of the config's hidden size; called in `setup`."""
        config = self.config
        return Lstm(config.hidden_size, bidirectional, config.forget_bias, config.precision, name=name)

    def perceptron(self, hidden_layer: str, layers: int, features: int, kind: str = "") -> Perceptron:
        """Returns a `Perceptron`; called in `setup`. An empty `kind` means the config's `prediction`."""
        kind = kind or self.config.prediction
        return Perceptron(kind, hidden_layer, layers, features, self.outputs, self.config.precision, name="prediction")

    @property
    def takes_characters(self) -> bool:
        """Whether the model takes the characters of each word."""
        return self.config.characters != "none"

    @property
    def token_features(self) -> tuple[str, ...]:
        """The features that the model takes of each token besides its word: 'tags', 'exact_match', both or none."""
        return ("tags",) * self.config.tags + ("exact_match",) * self.config.exact_match

    def __call__(
        self,
        a: dict[str, jax.Array],
        b: dict[str, jax.Array],
        vectors: jax.Array | WordTable,
        dropout_rate: jax.Array | float | None = None,
    ) -> jax.Array:
        """Matches pairs of sentences.

        Arguments:
          a: {'ids': <int32>[batch, length_a]}, the words of the first sentences; 0 is padding. A model may take further
            features of each word (layers/words.py).
          b: {'ids': <int32>[batch, length_b]}, the words of the second sentences.
          vectors: <float32>[words, dimensions], the word vectors; with `model.words=trained`, only their initial
            values. A table that also has the characters may be given instead.
          dropout_rate: <float32>[], or None in evaluation. In training, the random numbers come from the key 'dropout'.

        Returns:
          <float32>[batch, outputs], logits.
        """
        return self.match(*pair_rows(a, b), vectors, dropout_rate)

    def match(
        self,
        tokens: dict[str, jax.Array],
        sentences: jax.Array,
        vectors: jax.Array | WordTable,
        dropout_rate: jax.Array | float | None = None,
    ) -> jax.Array:
        """Matches pairs that are already rows. Padding may be anywhere in a row.

        Arguments:
          tokens: {'ids': <int32>[batch, length]}, the words of both sentences, those of the first before those of the
            second.
          sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.
          vectors, dropout_rate: the same as in a call.

        Returns:
          <float32>[batch, outputs], logits.
        """
        with jax_defaults():
            tokens, vectors = with_characters(tokens, vectors)
            pooled = self.sentence_vectors(tokens, sentences, vectors, dropout_rate)
            return self.predict(*(vector.astype(jnp.float32) for vector in pooled), dropout_rate)
