"""A model together with its parameters and word vectors: all that turns word ids into logits."""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import memory_mappings
from jaxmatch.data.rows import side_by_side
from jaxmatch.errors import InputError
from jaxmatch.layers import weights
from jaxmatch.layers.words import WordTable
from jaxmatch.models.weight_moves import apart
from jaxmatch.models.word_products import looked_up

_SMALLEST = 8
# Rows as long as this are computed as they come: filled up to eight they would need the memory of eight.
_LONG = 1024
# The most that products of words' vectors (models/word_products.py) may take, those of all models of a process together.
_MOST_PRODUCTS = 512 * 2**20
_looked_up: weakref.WeakSet["_Products"] = weakref.WeakSet()


@dataclasses.dataclass(frozen=True)
class _Shapes:
    """The shapes and types of a tree of arrays; can be hashed, as a tree of dicts cannot."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]

    @classmethod
    def of(cls, tree: Any) -> Self:
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves))

    def tree(self) -> Any:
        return jax.tree.unflatten(self.structure, self.leaves)


@dataclasses.dataclass(eq=False)
class _Products:
    """What is known of a model's words beforehand: <float32>[words, columns]; counted as long as a model holds it."""

    table: jax.Array

    def __post_init__(self):
        _looked_up.add(self)


@dataclasses.dataclass(frozen=True)
class _Program:
    """How a module matches rows of tokens of one shape.

    Attributes:
      move: weights -> the list of weights as they are computed with.
      moves: what `move` does; programs of which it is equal make the same list.
      make: that list and the word vectors -> the products of each word that are looked up; None where none are.
      columns: how many numbers of each word that is.
      products: which they are; programs of which it and `moves` are equal make the same.
      match: the weights, those products or None, the words, the tokens and the sentences -> logits.
    """

    move: Callable[[Any], list[jax.Array]]
    moves: str
    make: Callable[[list[jax.Array], jax.Array], jax.Array] | None
    columns: int
    products: tuple[int, ...]
    match: Callable[..., jax.Array]


@functools.cache
def _program(
    module: nn.Module, weights: _Shapes, words: _Shapes, names: tuple[str, ...], rows: tuple[int, int], look_up: bool
) -> _Program:
    """Made once for all models of one structure; `look_up`: products of word vectors, where the model has such."""
    tokens = {name: jax.ShapeDtypeStruct(rows, np.int32) for name in names}
    sentences = jax.ShapeDtypeStruct(rows, np.int8)

    def match(weights: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        return module.apply({"params": weights}, tokens, sentences, words, method="match")

    parts = apart(match, weights.tree(), words.tree(), tokens, sentences)
    if look_up:
        found = looked_up(parts.rest, jax.eval_shape(parts.move, weights.tree()), words.tree(), tokens, sentences)
        if found is not None:
            return _Program(parts.move, parts.written, jax.jit(found.make), found.columns, found.weights, jax.jit(found.rest))
    computed = jax.jit(lambda weights, products, *inputs: parts.rest(weights, *inputs))
    return _Program(parts.move, parts.written, None, 0, (), computed)


def room(extent: int, steps: int = 1) -> int:
    """The smallest extent, from 8 on, that holds `extent`: a power of two, or one of `steps` sizes between two powers."""
    power = 1 << max(0, extent - 1).bit_length()
    step = max(4, power // (2 * steps))
    return max(_SMALLEST, -(-extent // step) * step)


def rows_for(batch: int, length: int) -> int:
    """How many rows a batch of a length is filled up to, so that few programs are compiled."""
    return batch if length >= _LONG else room(batch)


def filled(tokens: dict[str, np.ndarray], sentences: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What `BoundModel.inputs` gives, with rows of padding below up to `rows_for` the batch."""
    filling = ((0, rows_for(*sentences.shape) - len(sentences)), (0, 0))
    if filling[0][1] == 0:
        return tokens, sentences
    return jax.tree.map(lambda values: np.pad(values, filling), (tokens, sentences))


def forget_programs_if_scarce() -> bool:
    """Gives up what is compiled for models that answer, where memory mappings are scarce; what is wanted again is compiled again.

    Returns:
      Whether it was given up.
    """
    if not memory_mappings.scarce():
        return False
    _program.cache_clear()
    jax.clear_caches()
    return True


def _checked(ids: np.ndarray, words: int, name: str) -> np.ndarray:
    ids = np.asarray(ids)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{name} is {ids.dtype} of shape {ids.shape}", remedy="give integers of shape (batch, length)")
    if ids.size and not (0 <= ids.min() and ids.max() < words):
        raise InputError(f"{name} holds ids from {ids.min()} to {ids.max()}", remedy=f"give ids from 0 to {words - 1}")
    return ids.astype(np.int32)


def _before_padding(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What stands before the padding at the end of each row: where <bool>[batch, length], how much <int>[batch]."""
    places = np.arange(1, ids.shape[1] + 1)
    lengths = np.max(np.where(ids > 0, places, 0), axis=1, initial=0)
    return places <= lengths[:, None], lengths


def _checked_feature(values: np.ndarray, ids: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.shape != ids.shape or not np.issubdtype(values.dtype, np.integer):
        raise InputError(
            f"{name} of the tokens is {values.dtype} of shape {values.shape}", remedy=f"give integers of shape {ids.shape}, as the ids"
        )
    return values.astype(np.int32)


@dataclasses.dataclass(frozen=True)
class BoundModel:
    """A model that answers.

    On a CPU it makes the products of all words' vectors with its weights once, at its first answer, and looks them up from then on
    (models/word_products.py): of the released SNLI setting 12.6 kB of a word, 400 MB of 32,000. Where those of all models in a
    process would take more than 512 MiB, a model computes them with every answer.

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
        if self.module.weight_normalization == "none":
            return self.module, self.params
        return self.module.clone(weight_normalization="none"), weights.folded(self.params)

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
        program, *made = self._prepared(tuple(tokens), sentences.shape, words)
        return program.match, (*made, words, tokens, sentences)

    def _prepared(
        self, names: tuple[str, ...], rows: tuple[int, int], words: jax.Array | WordTable
    ) -> tuple[_Program, list[jax.Array], jax.Array | None]:
        """The program for rows of tokens of one shape, and the weights and products of words as it computes with them."""
        programs, moved, products = self._cache
        own = (words.vectors if isinstance(words, WordTable) else words) is self.vectors
        key = names, rows, None if own else _Shapes.of(words)
        if key not in programs:
            if forget_programs_if_scarce():
                programs.clear()  # each that is wanted again is new again, and asks
            module, weights = self.folded
            structure = module, _Shapes.of(weights), _Shapes.of(words), names, rows
            # Of other words than the model's own they would be made for one call; on an accelerator it was not measured.
            program = _program(*structure, own and self._on_a_cpu)
            known = program.moves, program.products
            size = 4 * program.columns * self.vectors.shape[0]
            if known not in products and sum(each.table.nbytes for each in _looked_up) + size > _MOST_PRODUCTS:
                program = _program(*structure, False)
            if program.moves not in moved:  # one copy of the weights for all shapes
                moved[program.moves] = program.move(weights)
            if program.make and known not in products:
                products[known] = _Products(program.make(moved[program.moves], self.vectors))
            programs[key] = program, moved[program.moves], products[known].table if program.make else None
        return programs[key]

    @functools.cached_property
    def _on_a_cpu(self) -> bool:
        return all(device.platform == "cpu" for device in self.vectors.devices())

    @functools.cached_property
    def _cache(self) -> tuple[dict, dict, dict]:
        """Programs, weights as they are moved, and products of the words."""
        return {}, {}, {}

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
        known = (table.vectors if isinstance(table, WordTable) else table).shape[0]
        ids_a, ids_b = _checked(ids_a, known, "ids_a"), _checked(ids_b, known, "ids_b")
        if ids_b.shape[0] != ids_a.shape[0]:
            raise InputError(f"ids_a has {ids_a.shape[0]} rows and ids_b has {ids_b.shape[0]}", remedy="give one row a pair in each")
        (there_a, lengths_a), (there_b, lengths_b) = _before_padding(ids_a), _before_padding(ids_b)
        length = room(int((lengths_a + lengths_b).max(initial=1)), steps=4)
        ids, sentences = side_by_side(ids_a[there_a], lengths_a, ids_b[there_b], lengths_b, length)
        sentences[ids == 0] = 0  # padding may stand inside a sentence, too
        tokens = {"ids": ids}
        for name, (first, second) in (features or {}).items():
            first, second = _checked_feature(first, ids_a, name), _checked_feature(second, ids_b, name)
            tokens[name], _ = side_by_side(first[there_a], lengths_a, second[there_b], lengths_b, length)
        return tokens, sentences
