"""What all models share: how a pair of sentences comes in, and what is known of each word."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.words import WordFeatures, WordTable, with_characters


def side_by_side(a: dict[str, jax.Array], b: dict[str, jax.Array]) -> tuple[dict[str, jax.Array], jax.Array]:
    """Padded sentences as rows of both: {'ids': <int32>[batch, length_a]} and [batch, length_b] -> what `match` takes."""
    tokens = {name: jnp.concatenate([a[name], b[name]], axis=1) for name in a}
    is_token_a, is_token_b = (jnp.asarray(side["ids"]) > 0 for side in (a, b))
    return tokens, jnp.concatenate([is_token_a * jnp.int8(1), is_token_b * jnp.int8(2)], axis=1)


class PairModel(nn.Module):
    """A model of pairs of sentences. A subclass has `predict`, its prediction layer, and `sentence_vectors`, all below it.

    Arguments:
      outputs: number of classes, or 1 in regression.
    """

    outputs: int

    weight_normalization = "none"  # of a model that says nothing else

    @property
    def takes_characters(self) -> bool:
        """Whether it is given the characters of each word."""
        return False

    @property
    def token_features(self) -> tuple[str, ...]:
        """What it is given of each token besides its word: 'tags', 'exact_match', both or nothing."""
        return ()

    def __call__(
        self,
        a: dict[str, jax.Array],
        b: dict[str, jax.Array],
        vectors: jax.Array | WordTable,
        dropout_rate: jax.Array | float | None = None,
    ) -> jax.Array:
        """Matches pairs of sentences.

        Arguments:
          a: {'ids': <int32>[batch, length_a]}, the words of the first sentences; 0 is padding. A model may take further features
            of each word (layers/words.py).
          b: {'ids': <int32>[batch, length_b]}, of the second.
          vectors: <float32>[words, dimensions], the word vectors, which are not trained; or a table that has the characters, too.
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
        """As a call, for pairs that already are rows; padding may stand anywhere in them.

        Arguments:
          tokens: {'ids': <int32>[batch, length]}, the words of both sentences, those of the first before those of the second.
          sentences: <int8>[batch, length], 1 or 2: which sentence a token is of; 0 is padding.
          vectors, dropout_rate: as in a call.

        Returns:
          <float32>[batch, outputs], logits.
        """
        tokens, vectors = with_characters(tokens, vectors)
        pooled = self.sentence_vectors(tokens, sentences, vectors, dropout_rate)
        return self.predict(*(vector.astype(jnp.float32) for vector in pooled), dropout_rate)


class FeaturePairModel(PairModel):
    """A model that may be given more of each word than its vector.

    Arguments:
      characters: a word from its characters, 'none', 'cnn' or 'bilstm' (layers/characters.py).
      character_features: size of what they give.
      known_characters: how many there are, padding (0) included.
      tags: whether it is given the part of speech.
      tag_features: size of a tag's embedding.
      known_tags: how many there are, padding (0) included.
      exact_match: whether it is told which words the other sentence has, too.
      precision: of the matrix products, a key of `matmul.PRECISIONS`. In bfloat16 are also the activations below the pooling; parameters,
        the softmax of an attention, the states of an LSTM, pooled vectors and logits are float32.
    """

    characters: str = "none"
    character_features: int = 100
    known_characters: int = 128
    tags: bool = False
    tag_features: int = 10
    known_tags: int = 50
    exact_match: bool = False
    precision: str = "float32"

    @property
    def takes_characters(self) -> bool:
        return self.characters != "none"

    @property
    def token_features(self) -> tuple[str, ...]:
        return ("tags",) * self.tags + ("exact_match",) * self.exact_match

    def word_layer(self, name: str) -> WordFeatures:
        """The layer that looks up what is known of each word."""
        return WordFeatures(
            self.characters,
            self.character_features,
            self.known_characters,
            self.tags,
            self.tag_features,
            self.known_tags,
            self.exact_match,
            self.precision,
            name=name,
        )
