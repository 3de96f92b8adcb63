"""The inputs of a model for each word: its vector, and further features as in ESAN (section 2.1), CSRAN (section 2.1)
and CAFE.
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp

from jaxmatch.config import ModelConfig
from jaxmatch.data.characters import LONGEST_WORD
from jaxmatch.data.vocabulary import PADDING, WordTable
from jaxmatch.errors import InputError
from jaxmatch.layers.characters import CharacterFeatures
from jaxmatch.layers.distinct_word_features import encode_distinct_words
from jaxmatch.layers.matmul import PRECISIONS
from jaxmatch.layers.parts import Parts

# The name of the trained word vectors in the parameter tree of `WordFeatures`.
WORDS = "word_embedding"


def with_characters(
    tokens: dict[str, jax.Array], words: jax.Array | WordTable
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Looks up the characters of the tokens if `words` has them.

    Returns:
      the tokens, with their characters if `words` has them; and the word vectors.
    """
    if not isinstance(words, WordTable):
        return tokens, words
    return {**tokens, "characters": words.characters[tokens["ids"]]}, words.vectors


def with_fixed_words(
    settings: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], jax.Array | None]:
    """Converts a trained model to a model with fixed words that makes the same predictions.

    Arguments:
      settings: the settings of the model, as for `jaxmatch.models.build`.
      params: the parameter tree of the model.

    Returns:
      the settings and parameters of the model with fixed words, and the trained word vectors, <float32>[words,
      dimensions]. If the model did not train words, the settings and parameters are unchanged and the vectors are None.
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

    A word that has a vector starts at it. Other words start at random numbers with standard deviation 0.1. Padding
    is 0.
    """
    random = 0.1 * jax.random.normal(key, vectors.shape, vectors.dtype)
    is_known = (vectors != 0).any(axis=1, keepdims=True)
    return jnp.where(is_known, vectors, random).at[PADDING].set(0)


class WordFeatures(nn.Module):
    """The word vectors and the features that a config requests, in the type of the outputs of layers."""

    config: ModelConfig

    @nn.compact
    def __call__(self, tokens: dict[str, jax.Array], vectors: jax.Array) -> Parts:
        """Looks up the vector and computes the features of each token.

        Arguments:
          tokens: 'ids' <int32>[batch, length] and, if the config requests them, 'characters' <integer>[batch, length,
            16], 'tags' <integer>[batch, length] and 'exact_match' <int8 or float32>[batch, length]. Features may be
            missing when parameters are initialized, because the parameters do not depend on them.
          vectors: <float32>[words, dimensions]. With trained words, they are only the initial values of a parameter.
            Once the parameters exist, only the shape matters.

        Returns:
          parts of <float32>[batch, length, size], or <bfloat16> in that precision.

        Raises:
          InputError: the data lacks a feature that the config requests.
        """
        config = self.config
        if config.words == "trained":
            vectors = self.param(WORDS, initial_words, vectors)
        else:
            vectors = jax.lax.stop_gradient(vectors)
        parts = [vectors[tokens["ids"]]]
        if config.characters != "none":
            encode, characters = CharacterFeatures(config, name="characters"), self._feature(tokens, "characters")
            parts.append(encode_distinct_words(encode, tokens["ids"], characters, len(vectors)))
        if config.tags:
            shape = (config.known_tags, config.tag_features)
            table = self.param("tag_embedding", nn.initializers.glorot_uniform(), shape, jnp.float32)
            parts.append(table[self._feature(tokens, "tags")])
        if config.exact_match:
            parts.append(self._feature(tokens, "exact_match").astype(jnp.float32)[..., None])
        return tuple(part.astype(PRECISIONS[config.precision]) for part in parts)

    def _feature(self, tokens: dict[str, jax.Array], name: str) -> jax.Array:
        if name in tokens:
            return tokens[name]
        if not self.is_initializing():
            raise InputError(
                f"the model takes {name!r} of each word, which the data does not have",
                remedy=f"leave model.{name} as it is by default",
            )
        shape = tokens["ids"].shape
        return jnp.zeros((*shape, LONGEST_WORD) if name == "characters" else shape, jnp.int32)
