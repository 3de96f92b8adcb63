"""The inputs of a model for each word: its vector, and further features as in ESAN (section 2.1), CSRAN (section 2.1)
and CAFE.
"""

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp

from jaxmatch.config.models import ModelConfig
from jaxmatch.data.text import LONGEST_WORD, PADDING, WordTable
from jaxmatch.layers.attention import final_states
from jaxmatch.layers.core import PRECISIONS, Features, matmul, target
from jaxmatch.layers.lstm import Lstm


def encode_distinct_words(
    encode: Callable[[jax.Array], jax.Array], ids: jax.Array, given: jax.Array, words: int
) -> jax.Array:
    """Computes `encode(given)`, [batch, length, ...] -> <float32>[batch, length, features], where `encode` takes each
    token by itself and `given` is the same for all tokens of the same word.

    If the model is traced for a known number of distinct words (`core.traced_for`), each is encoded once. Among the
    tokens of 64 pairs of SNLI, a third to a quarter are distinct words; among those of 512 pairs, a sixth to an eighth.

    `ids` is <int32>[batch, length], the word of each token, below `words`.
    """
    most = target().most_words
    if most is None or most >= ids.size:
        return encode(given).astype(jnp.float32)
    first, place = distinct(ids.reshape(-1), most, words)
    encoded = encode(given.reshape(-1, *given.shape[2:])[first][None])[0]
    # In float32, because the gradient sums over all tokens of a word.
    return encoded.astype(jnp.float32)[place].reshape(*ids.shape, -1)


def distinct(ids: jax.Array, most: int, words: int) -> tuple[jax.Array, jax.Array]:
    """Finds the distinct ids, at most `most`, among `ids` <int32>[tokens], which are below `words`.

    Returns:
      the position of the first occurrence of each distinct id, <int32>[most], padded with 0; and for each token the
      index of its id among the distinct ones, <int32>[tokens].
    """
    tokens = jax.lax.iota(jnp.int32, len(ids))
    first_of = jnp.full(words, len(ids), jnp.int32).at[ids].min(tokens)[ids]
    is_first = first_of == tokens
    number = jnp.cumsum(is_first, dtype=jnp.int32) - 1
    first = jnp.zeros(most, jnp.int32).at[jnp.where(is_first, number, most)].set(tokens, mode="drop")
    return first, number[first_of]


class CharacterConvolution(nn.Module):
    """A convolution over the characters of a word, ReLU, and the maximum of each filter over the characters.

    Attributes:
      features: the number of filters.
      width: the number of characters that a filter sees; odd.
    """

    features: int
    width: int = 5
    precision: str = "float32"

    @nn.compact
    def __call__(self, embedded: jax.Array, mask: jax.Array) -> jax.Array:
        """Encodes words.

        Arguments:
          embedded: <float32 or bfloat16>[words, characters, size], the embeddings of the characters.
          mask: <bool>[words, characters], False at padding.

        Returns:
          [words, features] in the type of `embedded`.
        """
        shape = (self.width, embedded.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        # The characters are the first axis. If they were one of the last two axes, a TPU would pad 16 to 128.
        embedded, mask = jnp.swapaxes(embedded, 0, 1), mask.T[..., None]
        around = self.width // 2
        padded = jnp.pad(jnp.where(mask, embedded, 0), ((around, around), (0, 0), (0, 0)))
        windows = [padded[first : first + len(embedded)] for first in range(self.width)]
        # One product of the windows. A product that is shifted and summed instead would be `width` times as wide.
        filtered = matmul(jnp.concatenate(windows, axis=-1), kernel.reshape(-1, self.features), self.precision)
        return jnp.max(jnp.where(mask, nn.relu(filtered + bias.astype(filtered.dtype)), 0), axis=0)


class CharacterLstm(nn.Module):
    """The final states of both directions of an LSTM over the characters of a word.

    Attributes:
      features: the number of features of both directions together. If it is odd, the last one is cut off.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, embedded: jax.Array, mask: jax.Array) -> jax.Array:
        """Encodes words as `CharacterConvolution` does, but returns <float32>[words, features]."""
        states = Lstm(-(-self.features // 2), precision=self.precision)((embedded,), mask.astype(jnp.int8))
        return final_states(states, mask)[..., : self.features]


CHARACTER_ENCODERS = {"cnn": CharacterConvolution, "bilstm": CharacterLstm}


class CharacterFeatures(nn.Module):
    """A vector for each word, encoded from trained embeddings of its characters, which have the given size."""

    config: ModelConfig
    size: int = 20

    @nn.compact
    def __call__(self, characters: jax.Array) -> jax.Array:
        """Encodes the word of each token: <int32>[batch, length, characters of a word], 0 is padding -> <float32 or
        bfloat16>[batch, length, features].
        """
        config = self.config
        shape = (config.known_characters, self.size)
        table = self.param("embedding", nn.initializers.glorot_uniform(), shape, jnp.float32)
        words = characters.reshape(-1, characters.shape[-1])
        encoder = CHARACTER_ENCODERS[config.characters]
        encode = encoder(config.character_features, precision=config.precision, name="encoder")
        encoded = encode(table[words].astype(PRECISIONS[config.precision]), words > 0)
        return encoded.reshape(*characters.shape[:2], config.character_features)


# The name of the trained word vectors in the parameter tree of `WordFeatures`.
WORDS = "word_embedding"


def with_characters(
    tokens: dict[str, jax.Array], words: jax.Array | WordTable
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Returns the tokens, with their characters if `words` has them; and the word vectors."""
    if not isinstance(words, WordTable):
        return tokens, words
    return {**tokens, "characters": words.characters[tokens["ids"]]}, words.vectors


def with_fixed_words(
    settings: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], jax.Array | None]:
    """Returns the settings and parameters of a model with fixed words that makes the same predictions as a trained one,
    and the trained word vectors, <float32>[words, dimensions]; None if the model did not train words.
    """
    flat = flax.traverse_util.flatten_dict(dict(params))
    trained = [path for path in flat if path[-1] == WORDS]
    if not trained:
        return dict(settings), dict(params), None
    (path,) = trained
    words = flat.pop(path)
    return {**settings, "words": "fixed"}, flax.traverse_util.unflatten_dict(flat), words


def initial_words(key: jax.Array, vectors: jax.Array) -> jax.Array:
    """Returns the initial values of trained word vectors: <float32>[words, dimensions] -> the same shape.

    A word without a vector starts at random numbers with standard deviation 0.1; padding is 0.
    """
    random = 0.1 * jax.random.normal(key, vectors.shape, vectors.dtype)
    is_known = (vectors != 0).any(axis=1, keepdims=True)
    return jnp.where(is_known, vectors, random).at[PADDING].set(0)


class WordFeatures(nn.Module):
    """The word vectors and the features that a config requests, in the type of the outputs of layers."""

    config: ModelConfig

    @nn.compact
    def __call__(self, tokens: dict[str, jax.Array], vectors: jax.Array) -> Features:
        """Looks up the vector and computes the features of each token.

        Arguments:
          tokens: 'ids' <int32>[batch, length] and, if the config requests them, 'characters' <integer>[batch, length,
            16], 'tags' <integer>[batch, length] and 'exact_match' <int8 or float32>[batch, length]. Features may be
            missing when parameters are initialized, because the parameters do not depend on them.
          vectors: <float32>[words, dimensions]. With trained words, they are only the initial values of a parameter.
            Once the parameters exist, only the shape matters.

        Returns:
          <float32>[batch, length, size] each, or <bfloat16> in that precision.
        """
        config = self.config
        if config.words == "trained":
            vectors = self.param(WORDS, initial_words, vectors)
        else:
            vectors = jax.lax.stop_gradient(vectors)
        found = [vectors[tokens["ids"]]]
        if config.characters != "none":
            encode, characters = CharacterFeatures(config, name="characters"), self._feature(tokens, "characters")
            found.append(encode_distinct_words(encode, tokens["ids"], characters, len(vectors)))
        if config.tags:
            shape = (config.known_tags, config.tag_features)
            table = self.param("tag_embedding", nn.initializers.glorot_uniform(), shape, jnp.float32)
            found.append(table[self._feature(tokens, "tags")])
        if config.exact_match:
            found.append(self._feature(tokens, "exact_match").astype(jnp.float32)[..., None])
        return tuple(each.astype(PRECISIONS[config.precision]) for each in found)

    def _feature(self, tokens: dict[str, jax.Array], name: str) -> jax.Array:
        if name in tokens or not self.is_initializing():
            return tokens[name]
        shape = tokens["ids"].shape
        return jnp.zeros((*shape, LONGEST_WORD) if name == "characters" else shape, jnp.int32)
