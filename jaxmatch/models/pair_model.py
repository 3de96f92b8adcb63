"""The base of all models: its inputs are a pair of sentences, and features of each word."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import ModelConfig
from jaxmatch.data.vocabulary import WordTable
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.perceptron import Perceptron
from jaxmatch.layers.words import with_characters


def side_by_side(a: dict[str, jax.Array], b: dict[str, jax.Array]) -> tuple[dict[str, jax.Array], jax.Array]:
    """Padded sentences as rows of both: {'ids': <int32>[batch, length_a]} and [batch, length_b] -> what `match`
    takes.
    """
    tokens = {name: jnp.concatenate([a[name], b[name]], axis=1) for name in a}
    is_token_a, is_token_b = (jnp.asarray(side["ids"]) > 0 for side in (a, b))
    return tokens, jnp.concatenate([is_token_a * jnp.int8(1), is_token_b * jnp.int8(2)], axis=1)


class PairModel(nn.Module):
    """A model of pairs of sentences. A subclass has:

        sentence_vectors(tokens, sentences, vectors, dropout_rate) -> two arrays <float32>[batch, size]
            All below the prediction layer, with the arguments of `match`: a vector of each first and second sentence.
        predict(vector_a, vector_b, dropout_rate) -> <float32>[batch, outputs]
            The prediction layer: the logits. Both vectors are <float32>[batch, size].

    Arguments:
      config: its settings (jaxmatch/config/).
      outputs: number of classes, or 1 in regression.
    """

    config: ModelConfig
    outputs: int

    def lstm(self, name: str, bidirectional: bool = True) -> Lstm:
        """A layer of the config's hidden size, for `setup`."""
        config = self.config
        return Lstm(config.hidden_size, bidirectional, config.forget_bias, config.precision, name=name)

    def perceptron(self, hidden_layer: str, layers: int, features: int, kind: str = "") -> Perceptron:
        """Prediction layers, for `setup`; arguments as of `Perceptron`, `kind` by default the config's `prediction`."""
        kind = kind or self.config.prediction
        return Perceptron(kind, hidden_layer, layers, features, self.outputs, self.config.precision, name="prediction")

    @property
    def takes_characters(self) -> bool:
        """Whether it is given the characters of each word."""
        return self.config.characters != "none"

    @property
    def token_features(self) -> tuple[str, ...]:
        """What it is given of each token besides its word: 'tags', 'exact_match', both or nothing."""
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
          b: {'ids': <int32>[batch, length_b]}, of the second.
          vectors: <float32>[words, dimensions], the word vectors; with `model.words=trained`, only their initial
            values. Or a table that has the characters, too.
          dropout_rate: <float32>[], or None in evaluation; otherwise the random numbers come from the key 'dropout'.

        Returns:
          <float32>[batch, outputs], logits.
        """
        return self.match(*side_by_side(a, b), vectors, dropout_rate)

    def match(
        self,
        tokens: dict[str, jax.Array],
        sentences: jax.Array,
        vectors: jax.Array | WordTable,
        dropout_rate: jax.Array | float | None = None,
    ) -> jax.Array:
        """As a call, for pairs that already are rows; padding may be anywhere in them.

        Arguments:
          tokens: {'ids': <int32>[batch, length]}, the words of both sentences, those of the first before those of the
            second.
          sentences: <int8>[batch, length], 1 or 2: which sentence a token is of; 0 is padding.
          vectors, dropout_rate: as in a call.

        Returns:
          <float32>[batch, outputs], logits.
        """
        tokens, vectors = with_characters(tokens, vectors)
        pooled = self.sentence_vectors(tokens, sentences, vectors, dropout_rate)
        return self.predict(*(vector.astype(jnp.float32) for vector in pooled), dropout_rate)
