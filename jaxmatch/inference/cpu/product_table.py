"""Replaces products of word vectors and weights by lookups in a table with a row for each word of the vocabulary.

Without dropout, the product of a word's vector E and a weight W is the same in every sentence. If attention A mixes the
words, (A E) W = A (E W). In RE2 the table saves two fifths of the multiply-adds of a prediction, and on a CPU a lookup
costs less than the product (benchmarks/NOTES.md).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from jaxmatch.inference.cpu.rewriting import RewrittenJaxpr, Values
from jaxmatch.inference.cpu.word_products import WordProduct, find_word_products


@dataclasses.dataclass(frozen=True)
class TabulatedProgram:
    """A function in two parts: one that makes a table of products, and one that looks them up.

    `apply(weights, make_table(weights, vectors), words, *inputs)` equals `function(weights, words, *inputs)`.

    Attributes:
      columns: the number of columns of the table.
      make_table: weights and word vectors -> <float32>[words, columns].
      apply: weights, the table, words and inputs -> the result of the function.
      weights: the indices of the weights whose products are in the table. Programs with the same indices can share a
        table.
    """

    columns: int
    make_table: Callable[[list[jax.Array], jax.Array], jax.Array]
    apply: Callable[..., Any]
    weights: tuple[int, ...]


def tabulate(function: Callable[..., Any], weights: list[Any], words: Any, *inputs: Any) -> TabulatedProgram | None:
    """Moves the products E W and (A E) W of a function to a table, if they are float32 products with a whole weight.

    Arguments:
      function: a function that can be traced, draws no random numbers and has no side effects.
      weights: the first argument of the function: arrays, or their shapes and dtypes (`jax.ShapeDtypeStruct`).
      words: the second argument: a tree of arrays, of which the first is the word vectors, <float32>[words,
        dimensions].
      inputs: the other arguments.

    Returns:
      Both parts, for arguments of exactly these shapes and dtypes. `make_table` is jitted, `apply` is not. None if the
      function has no such product.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, words, *inputs)
    equations, structure = closed.jaxpr.eqns, jax.tree.structure(result)
    lookup_index, found = find_word_products(closed.jaxpr, len(weights))
    if not found:
        return None
    groups = _groups(found, equations)
    ends = list(itertools.accumulate(group.columns for group in groups))
    used = tuple(product.weight for group in groups for product in group.products)
    lookup, multiply = equations[lookup_index], equations[found[0].equation]
    rewritten = RewrittenJaxpr(closed, [lookup_index, *(index for group in groups for index in group.replaced)])

    @jax.jit
    def make_table(weights: list[jax.Array], vectors: jax.Array) -> jax.Array:
        joined = jnp.concatenate([weights[index] for index in used], axis=1)
        return multiply.primitive.bind(vectors, joined, **multiply.params)

    def apply(weights: list[jax.Array], table: jax.Array, words: Any, *inputs: Any) -> Any:
        replacements: dict[int, Callable[[Values], jax.Array]] = {}

        def look_up(values: Values) -> jax.Array:
            vectors, ids = (values[variable] for variable in lookup.invars)
            rows = lookup.primitive.bind(table, ids, **{**lookup.params, "slice_sizes": (1, ends[-1])})
            rows = jnp.split(rows.reshape(-1, ends[-1]), ends[:-1], axis=1)
            rows = jax.lax.optimization_barrier(rows)  # else XLA repeats the lookup for each reader
            for group, products in zip(groups, rows, strict=True):
                replacements.update(group.replacements(products))
            return lookup.primitive.bind(vectors, ids, **lookup.params)

        replacements[lookup_index] = look_up
        return jax.tree.unflatten(structure, rewritten([*weights, *jax.tree.leaves((words, *inputs))], replacements))

    return TabulatedProgram(ends[-1], make_table, apply, used)


@dataclasses.dataclass(frozen=True)
class _Group:
    """Products that are adjacent in the table: one product E W, or all products (A E) W of one A E.

    Attributes:
      products: the products in the order of their columns.
      attend: the equation that computes A E; None for E W.
    """

    products: tuple[WordProduct, ...]
    attend: JaxprEqn | None

    @property
    def columns(self) -> int:
        return sum(product.columns for product in self.products)

    @property
    def replaced(self) -> list[int]:
        """The indices of the equations to replace."""
        own = [product.equation for product in self.products]
        if self.attend is None:
            return own
        *_, tokens, dimensions = self.attend.invars[1].aval.shape
        # A (E W) is less work than (A E) W if there are fewer tokens than dimensions.
        return [self.products[0].attended, *own] if tokens < dimensions else []

    def replacements(self, products: jax.Array) -> dict[int, Callable[[Values], jax.Array]]:
        """Returns index of an equation -> a function that computes it from `products`.

        Arguments:
          products: E W of the whole group, <float32>[tokens, columns].
        """
        if self.attend is None:
            return {self.products[0].equation: lambda values: products}
        attended: list[jax.Array] = []  # A (E W) of the whole group, once A is known

        def attend(values: Values) -> jax.Array:
            attention, vectors = (values[variable] for variable in self.attend.invars)
            by_row = products.reshape(*vectors.shape[:-1], self.columns)
            attended.append(
                self.attend.primitive.bind(attention, by_row, **self.attend.params).reshape(-1, self.columns)
            )
            return self.attend.primitive.bind(attention, vectors, **self.attend.params)

        def product_in(columns: slice, values: Values) -> jax.Array:
            return attended[0][:, columns]

        ends = itertools.accumulate(product.columns for product in self.products)
        by_equation = {
            product.equation: functools.partial(product_in, slice(end - product.columns, end))
            for product, end in zip(self.products, ends, strict=True)
        }
        return {self.products[0].attended: attend} | by_equation


def _groups(products: list[WordProduct], equations: Sequence[JaxprEqn]) -> list[_Group]:
    """Groups products: all products of the same A E are one group, and each product E W is a group of its own."""
    together: dict[Any, list[WordProduct]] = {}
    for product in products:
        together.setdefault(product if product.attended is None else product.attended, []).append(product)
    return [
        _Group(tuple(group), None if group[0].attended is None else equations[group[0].attended])
        for group in together.values()
    ]
