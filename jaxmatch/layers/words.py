"""What a model is given for each word: its vector, and features beside it, as ESAN (section 2.1), CSRAN (section 2.1)
and CAFE have.
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
from jaxmatch.layers.matmul import PRECISIONS
from jaxmatch.layers.once_a_word import once_a_word
from jaxmatch.layers.parts import Parts

# The name of the parameter in the tree of `WordFeatures`.
WORDS = "word_embedding"


def with_characters(
    tokens: dict[str, jax.Array], words: jax.Array | WordTable
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Looks up the characters of the tokens, if they are known; the tokens with them, and the vectors."""
    if not isinstance(words, WordTable):
        return tokens, words
    return {**tokens, "characters": words.characters[tokens["ids"]]}, words.vectors


def with_fixed_words(
    settings: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], jax.Array | None]:
    """A trained model as one whose words are fixed, which answers the same.

    Arguments:
      settings: of `jaxmatch.models.build`.
      params: the tree of parameters.

    Returns:
      the settings and parameters of a model with fixed words, and the words that were trained, <float32>[words,
      dimensions]; None, and the others as they are, if they were not.
    """
    flat = flax.traverse_util.flatten_dict(dict(params))
    trained = [path for path in flat if path[-1] == WORDS]
    if not trained:
        return dict(settings), dict(params), None
    (path,) = trained
    words = flat.pop(path)
    return {**settings, "words": "fixed"}, flax.traverse_util.unflatten_dict(flat), words


def initial_words(key: jax.Array, vectors: jax.Array) -> jax.Array:
    """What trained word vectors start at: <float32>[words, dimensions] alike.

    That is the vector of a word that has one. Other words start at random numbers with standard deviation 0.1; padding
    stays 0.
    """
    random = 0.1 * jax.random.normal(key, vectors.shape, vectors.dtype)
    is_known = (vectors != 0).any(axis=1, keepdims=True)
    return jnp.where(is_known, vectors, random).at[PADDING].set(0)


class WordFeatures(nn.Module):
    """The word vectors and the features that are asked for, in the type that layers hand on."""

    config: ModelConfig

    @nn.compact
    def __call__(self, tokens: dict[str, jax.Array], vectors: jax.Array) -> Parts:
        """Looks up what is known of each word.

        Arguments:
          tokens: 'ids' <int32>[batch, length] and, as far as they are asked for, 'characters' <integer>[batch, length,
            16], 'tags' <integer>[batch, length] and 'exact_match' <int8 or float32>[batch, length]. Features may be
            missing when parameters are made, which do not depend on them.
          vectors: <float32>[words, dimensions]; with trained words, of which the parameters hold their own, only the
            shape matters.

        Returns:
          parts of <float32, or bfloat16 in this precision>[batch, length, size].

        Raises:
          InputError: if a feature is missing.
        """
        config = self.config
        if config.words == "trained":
            vectors = self.param(WORDS, initial_words, vectors)
        else:
            vectors = jax.lax.stop_gradient(vectors)
        parts = [vectors[tokens["ids"]]]
        if config.characters != "none":
            encode, characters = CharacterFeatures(config, name="characters"), self._feature(tokens, "characters")
            parts.append(once_a_word(encode, tokens["ids"], characters, len(vectors)))
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
