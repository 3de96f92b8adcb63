"""The programs of a model that answers, one for each shape of rows, with what all of them compute beforehand."""

import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any, Self

import flax.linen as nn
import jax
import numpy as np

from jaxmatch import memory_mappings
from jaxmatch.layers.lstm import traced_for_a_cpu
from jaxmatch.layers.words import WordTable
from jaxmatch.models import compilation
from jaxmatch.models.weight_moves import apart
from jaxmatch.models.word_products import looked_up

# The most that products of words' vectors (models/word_products.py) may take, those of all models of a process together.
MOST_PRODUCTS = 2**30


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
    module: nn.Module, weights: _Shapes, words: _Shapes, names: tuple[str, ...], rows: tuple[int, int], on_a_cpu: bool, look_up: bool
) -> _Program:
    """Made once for all models of one structure; `look_up`: products of word vectors, where the model has such."""
    compiled = functools.partial(jax.jit, compiler_options=compilation.for_answers() if on_a_cpu else None)
    tokens = {name: jax.ShapeDtypeStruct(rows, np.int32) for name in names}
    sentences = jax.ShapeDtypeStruct(rows, np.int8)

    def match(weights: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        with traced_for_a_cpu() if on_a_cpu else contextlib.nullcontext():
            return module.apply({"params": weights}, tokens, sentences, words, method="match")

    parts = apart(match, weights.tree(), words.tree(), tokens, sentences)
    if look_up:
        found = looked_up(parts.rest, jax.eval_shape(parts.move, weights.tree()), words.tree(), tokens, sentences)
        if found is not None:
            return _Program(parts.move, parts.written, jax.jit(found.make), found.columns, found.weights, compiled(found.rest))
    computed = compiled(lambda weights, products, *inputs: parts.rest(weights, *inputs))
    return _Program(parts.move, parts.written, None, 0, (), computed)


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


@dataclasses.dataclass(eq=False)
class _Products:
    """What is known of a model's words beforehand: <float32>[words, columns]; counted as long as a model holds it."""

    table: jax.Array

    def __post_init__(self):
        _held.add(self)


_held: weakref.WeakSet[_Products] = weakref.WeakSet()


class Answering:
    """The programs of one model.

    Arguments:
      module: the model.
      weights: its parameters.
      vectors: <float32>[words, dimensions], its own words.
    """

    def __init__(self, module: nn.Module, weights: Any, vectors: jax.Array):
        self._module, self._weights, self._vectors = module, weights, vectors
        self._on_a_cpu = all(device.platform == "cpu" for device in vectors.devices())
        self._programs: dict[tuple, tuple] = {}
        self._moved: dict[str, list[jax.Array]] = {}
        self._products: dict[tuple, _Products] = {}

    def program(
        self, names: tuple[str, ...], rows: tuple[int, int], words: jax.Array | WordTable
    ) -> tuple[Callable[..., jax.Array], list[jax.Array], jax.Array | None]:
        """The program for rows of tokens of one shape, and the weights and products of words as it takes them.

        Arguments:
          names: what is known of each token.
          rows: batch and length.
          words: the table that ids point into; products are looked up of the model's own alone.
        """
        own = (words.vectors if isinstance(words, WordTable) else words) is self._vectors
        key = names, rows, None if own else _Shapes.of(words)
        if key not in self._programs:
            if forget_programs_if_scarce():
                self._programs.clear()  # each that is wanted again is new again, and asks
            structure = self._module, _Shapes.of(self._weights), _Shapes.of(words), names, rows, self._on_a_cpu
            # On an accelerator it was not measured whether to look up is faster.
            program = _program(*structure, own and self._on_a_cpu)
            if program.make and not self._fits(program):
                program = _program(*structure, False)
            if program.moves not in self._moved:  # one copy of the weights for all shapes
                self._moved[program.moves] = program.move(self._weights)
            self._programs[key] = program.match, self._moved[program.moves], self._known(program)
        return self._programs[key]

    def _fits(self, program: _Program) -> bool:
        """Whether what a program looks up is there, or there is room for it."""
        size = 4 * program.columns * self._vectors.shape[0]
        return (program.moves, program.products) in self._products or sum(one.table.nbytes for one in _held) + size <= MOST_PRODUCTS

    def _known(self, program: _Program) -> jax.Array | None:
        """What a program looks up; one table for all shapes."""
        if program.make is None:
            return None
        key = program.moves, program.products
        if key not in self._products:
            self._products[key] = _Products(program.make(self._moved[program.moves], self._vectors))
        return self._products[key].table
