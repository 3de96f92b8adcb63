"""Predicts on a CPU with programs that do not repeat the work that is the same for every batch.

For each shape of token rows
  1. operations on weights alone are hoisted out of the program (hoisting.py);
  2. products of word vectors and weights become lookups in a table (product_table.py), if memory suffices for it;
  3. the rest is compiled with options that suit small batches (compiler_options.py).
"""

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import flax.linen as nn
import jax
import numpy as np

from jaxmatch import memory_mappings
from jaxmatch.data.text import WordTable
from jaxmatch.inference.cpu.compiler_options import compiler_options
from jaxmatch.inference.cpu.hoisting import HoistedProgram, hoist
from jaxmatch.inference.cpu.product_table import TabulatedProgram, tabulate
from jaxmatch.layers.core import traced_for

# The maximum size of the tables of all models of a process together. A model whose table does not fit computes the
# products.
MAX_TABLE_BYTES = 2**30

# Threads may share a model, so only one of them prepares programs and tables at a time.
_prepare_lock = threading.RLock()


def prepare(module: nn.Module, params: Any, vectors: jax.Array) -> "Predictor":
    """Prepares a model for predictions on a CPU.

    Nothing is computed before the first prediction.

    Arguments:
      module: the model. It needs the method `match` (models/pair_model.py).
      params: the parameters of the model.
      vectors: <float32>[words, dimensions], the word vectors of the model.

    Returns:
      A function (words, tokens, sentences) -> logits <float32>[batch, outputs]; see `Predictor.__call__`.
    """
    return Predictor(module, params, vectors)


class PreparedProgram(NamedTuple):
    """A program for one shape of token rows, and two of its arguments.

    Attributes:
      predict: (weights, table, words, tokens, sentences) -> logits <float32>[batch, outputs]; it is jitted.
      weights: the prepared weights.
      table: <float32>[words, columns], the products of word vectors; None if the program computes these products.
    """

    predict: Callable[..., jax.Array]
    weights: list[jax.Array]
    table: jax.Array | None


class Predictor:
    """A callable that predicts batches with the program of their shape; `prepare` returns it.

    Attributes:
      programs: (names of the token features, shape of the rows, signature of the words or None for the model's own
        words) -> program.
    """

    def __init__(self, module: nn.Module, params: Any, vectors: jax.Array):
        self._module, self._params, self._vectors = module, params, vectors
        self.programs: dict[tuple, PreparedProgram] = {}
        self._weights: dict[str, list[jax.Array]] = {}
        self._tables: dict[tuple, _Table] = {}

    def __call__(self, words: jax.Array | WordTable, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        """Predicts a batch.

        Arguments:
          words: the table that the ids index. Products are looked up only if its vectors are the model's own.
          tokens: 'ids' and the other features of the tokens, each <int32>[batch, length].
          sentences: <int8>[batch, length], the sentence of a token, 1 or 2; 0 is padding.

        Returns:
          The logits, <float32>[batch, outputs].
        """
        program = self.program(words, tokens, sentences)
        return program.predict(program.weights, program.table, words, tokens, sentences)

    def program(
        self, words: jax.Array | WordTable, tokens: dict[str, jax.Array], sentences: jax.Array
    ) -> PreparedProgram:
        """Returns the program for a batch of this shape, and prepares it if the shape is new."""
        own = (words.vectors if isinstance(words, WordTable) else words) is self._vectors
        key = tuple(sorted(tokens)), sentences.shape, None if own else _Signature.of(words)
        program = self.programs.get(key)
        if program is None:
            with _prepare_lock:
                program = self.programs.get(key) or self._new_program(key, words, own)
        return program

    def _new_program(self, key: tuple, words: jax.Array | WordTable, own: bool) -> PreparedProgram:
        if memory_mappings.clear_programs_if_scarce():
            _program.cache_clear()
            self.programs.clear()  # else they compile again without a check of the memory mappings
        self.programs[key] = self._prepared(*key[:2], words, own)
        return self.programs[key]

    def _prepared(
        self, names: tuple[str, ...], shape: tuple[int, int], words: jax.Array | WordTable, own: bool
    ) -> PreparedProgram:
        signature = self._module, _Signature.of(self._params), _Signature.of(words), names, shape
        program = _program(*signature, tabulated=own)
        if program.tabulated and not self._fits(program):
            program = _program(*signature, tabulated=False)
        key = program.hoisted.key
        if key not in self._weights:  # one copy of the weights for all shapes
            self._weights[key] = program.hoisted.prepare(self._params)
        return PreparedProgram(program.predict, self._weights[key], self._table(program))

    def _fits(self, program: "_Program") -> bool:
        """Returns whether the table of a program exists, or fits into the memory that is left for tables."""
        size = 4 * program.tabulated.columns * self._vectors.shape[0]
        return program.table_key in self._tables or table_bytes() + size <= MAX_TABLE_BYTES

    def _table(self, program: "_Program") -> jax.Array | None:
        """Returns the table of a program, which the programs of a model share."""
        if program.tabulated is None:
            return None
        key = program.table_key
        if key not in self._tables:
            self._tables[key] = _Table(program.tabulated.make_table(self._weights[program.hoisted.key], self._vectors))
        return self._tables[key].products


@dataclasses.dataclass(frozen=True)
class _Program:
    """The program for rows of one shape; models of the same structure share it."""

    hoisted: HoistedProgram
    tabulated: TabulatedProgram | None
    predict: Callable[..., jax.Array]

    @property
    def table_key(self) -> tuple:
        """The key of the table: programs with equal keys compute equal tables from the same weights."""
        return self.hoisted.key, self.tabulated.weights


@functools.cache
def _program(
    module: nn.Module,
    params: "_Signature",
    words: "_Signature",
    names: tuple[str, ...],
    shape: tuple[int, int],
    *,
    tabulated: bool,
) -> _Program:
    """Traces and splits a program. If `tabulated`, it looks up products in a table, if the model has such products."""
    jit = functools.partial(jax.jit, compiler_options=compiler_options())
    tokens = {name: jax.ShapeDtypeStruct(shape, np.int32) for name in names}
    sentences = jax.ShapeDtypeStruct(shape, np.int8)

    def match(params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        with traced_for("cpu"):
            return module.apply({"params": params}, tokens, sentences, words, method="match")

    hoisted = hoist(match, params.tree(), words.tree(), tokens, sentences)
    if tabulated:
        weights = jax.eval_shape(hoisted.prepare, params.tree())
        found = tabulate(hoisted.apply, weights, words.tree(), tokens, sentences)
        if found is not None:
            return _Program(hoisted, found, jit(found.apply))
    return _Program(hoisted, None, jit(lambda weights, table, *inputs: hoisted.apply(weights, *inputs)))


@dataclasses.dataclass(frozen=True)
class _Signature:
    """The shapes and dtypes of a tree of arrays, as a hashable value."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]

    @classmethod
    def of(cls, tree: Any) -> Self:
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves))

    def tree(self) -> Any:
        return jax.tree.unflatten(self.structure, self.leaves)


@dataclasses.dataclass(eq=False)
class _Table:
    """Products of word vectors, <float32>[words, columns]. `table_bytes` counts a table as long as a model holds it."""

    products: jax.Array

    def __post_init__(self):
        _live_tables.add(self)


_live_tables: weakref.WeakSet[_Table] = weakref.WeakSet()


def table_bytes() -> int:
    """Returns the total size in bytes of the tables of all models in this process."""
    return sum(table.products.nbytes for table in _live_tables)
