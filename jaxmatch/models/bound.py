"""A model together with its parameters and word vectors: all that turns word ids into logits."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.layers import weights
from jaxmatch.layers.words import WordTable
from jaxmatch.models.answering import Answering
from jaxmatch.models.token_rows import filled, room, token_rows


@dataclasses.dataclass(frozen=True)
class BoundModel:
    """A model that answers.

    On a CPU it makes the products of all words' vectors with its weights once, at its first answer, and looks them up from then on
    (models/word_products.py): of the released SNLI setting 16.2 kB of a word, 520 MB of 32,000. Where those of all models in a
    process would take more than 1 GiB, a model computes them with every answer.

    Attributes:
      module: the model (jaxmatch/models).
      params: its parameters, of one run.
      vectors: <float32>[words, dimensions], the table of word vectors that ids point into.
      characters: <uint16>[words, 16], the characters of the same words (data/characters.py), for a model that takes them.
    """

    module: nn.Module
    params: Any
    vectors: jax.Array | np.ndarray
    characters: jax.Array | np.ndarray | None = None

    def __post_init__(self):
        # Moved to the device once, not with every batch; and weights are normalised once.
        object.__setattr__(self, "params", jax.tree.map(jnp.asarray, self.params))
        object.__setattr__(self, "vectors", jnp.asarray(self.vectors, jnp.float32))
        if self.characters is not None:
            object.__setattr__(self, "characters", jnp.asarray(self.characters))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: compiled programs are made again where they are wanted."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def words(self) -> jax.Array | WordTable:
        """What the module is given as word vectors."""
        return self.vectors if self.characters is None else WordTable(self.vectors, self.characters)

    def words_with(self, characters: np.ndarray) -> WordTable:
        """The table with rows behind its own for words that have no vector: <integer>[new words, 16] of a model that takes characters.

        There are as many more as a power of two has, so that few programs are compiled whatever comes.
        """
        more = room(len(characters))
        behind = np.zeros((more - len(characters), characters.shape[1]), characters.dtype)
        return WordTable(
            jnp.pad(self.vectors, ((0, more), (0, 0))),
            jnp.concatenate([self.characters, jnp.asarray(np.concatenate([characters, behind]), self.characters.dtype)]),
        )

    @functools.cached_property
    def folded(self) -> tuple[nn.Module, Any]:
        """The module and parameters of the same model with the weights as they are multiplied."""
        if self.module.config.weight_normalization == "none":
            return self.module, self.params
        config = dataclasses.replace(self.module.config, weight_normalization="none")
        return self.module.clone(config=config), weights.folded(self.params)

    def logits(
        self,
        ids_a: np.ndarray,
        ids_b: np.ndarray,
        features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        words: jax.Array | WordTable | None = None,
    ) -> np.ndarray:
        """Matches pairs of padded sentences.

        A pair's tokens are laid side by side; batches are padded to powers of two and rows to one of few lengths, so that
        few programs are compiled whatever comes.

        Arguments:
          ids_a: <int32>[batch, length_a], 0 = padding.
          ids_b: <int32>[batch, length_b].
          features: name -> <integer>[batch, length_a] and [batch, length_b], what else the model takes of each token
            (`module.token_features`).
          words: a table of more words that begins with the model's own (`words`); None: that one. A batch that has no word
            behind the model's own is answered with the latter.

        Returns:
          <float32>[batch, outputs].

        Raises:
          InputError: if the shapes do not fit, an id is outside the table, or a feature is missing.
        """
        words = self.words if words is None else words
        tokens, sentences = self.inputs(ids_a, ids_b, features, words)
        batch = len(sentences)
        if tokens["ids"].max(initial=0) < self.vectors.shape[0]:
            words = self.words
        program, arguments = self.program(*filled(tokens, sentences), words)
        return np.asarray(program(*arguments))[:batch]

    def program(
        self, tokens: dict[str, np.ndarray], sentences: np.ndarray, words: jax.Array | WordTable | None = None
    ) -> tuple[Callable[..., jax.Array], tuple]:
        """What computes an answer, and what it is to be called with: `inputs`, and weights and words as it takes them."""
        words = self.words if words is None else words
        program, *made = self._answering.program(tuple(tokens), sentences.shape, words)
        return program, (*made, words, tokens, sentences)

    @functools.cached_property
    def _answering(self) -> Answering:
        return Answering(*self.folded, self.vectors)

    def inputs(
        self,
        ids_a: np.ndarray,
        ids_b: np.ndarray,
        features: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        words: jax.Array | WordTable | None = None,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """What the module's `match` is given for pairs of padded sentences: see `logits`.

        Returns:
          tokens, 'ids' <int32>[batch, length] and each of the features alike, and sentences <int8>[batch, length].
        """
        table = self.words if words is None else words
        return token_rows(ids_a, ids_b, features, (table.vectors if isinstance(table, WordTable) else table).shape[0])
