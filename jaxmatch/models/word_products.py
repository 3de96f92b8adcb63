"""A program in which the products of the word vectors are looked up: they are made once for each word of the vocabulary.

Without dropout, what a weight W makes of a word's vector does not depend on the sentence. Of words that attention A mixes it makes
the same before and after they are mixed: (A E) W = A (E W). In RE2 two fifths of all multiply-adds of an answer are spared
by it; to look one up costs a CPU less than to make it (benchmarks/NOTES.md).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from jaxmatch.models.cut_programs import CutProgram, Values
from jaxmatch.models.word_equations import Product, products_of_words


@dataclasses.dataclass(frozen=True)
class WordProducts:
    """`function(weights, words, *inputs)` as two: `rest(weights, make(weights, vectors), words, *inputs)` is the same.

    Attributes:
      columns: numbers that are made for each word.
      make: the weights and the word vectors -> the table <float32>[words, columns].
      rest: the weights, that table, the words and the inputs -> the function's result.
      weights: which of the weights, by number, are multiplied in the table; programs in which they are the same can share one.
    """

    columns: int
    make: Callable[[list[jax.Array], jax.Array], jax.Array]
    rest: Callable[..., Any]
    weights: tuple[int, ...]


def looked_up(function: Callable[..., Any], weights: list[Any], words: Any, *inputs: Any) -> WordProducts | None:
    """Finds the products of looked-up word vectors, as they are and as they are mixed, with whole weights; of float32 all.

    Arguments:
      function: can be compiled; draws no random number and has no effect but its result.
      weights: its first argument: arrays, or their shapes and types (`jax.ShapeDtypeStruct`).
      words: the second, arrays of which the first are the word vectors, <float32>[words, dimensions].
      inputs: its other arguments.

    Returns:
      both parts, not compiled yet, for arguments of just these shapes and types; None where there is no such product.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, words, *inputs)
    equations, structure = closed.jaxpr.eqns, jax.tree.structure(result)
    place, found = products_of_words(closed.jaxpr, len(weights))
    if not found:
        return None
    groups = _groups(found, equations)
    ends = list(itertools.accumulate(group.columns for group in groups))
    used = tuple(product.weight for group in groups for product in group.products)
    lookup, multiply = equations[place], equations[found[0].equation]
    cut = CutProgram(closed, [place, *(number for group in groups for number in group.replaced)])

    def make(weights: list[jax.Array], vectors: jax.Array) -> jax.Array:
        side_by_side = jnp.concatenate([weights[number] for number in used], axis=1)
        return multiply.primitive.bind(vectors, side_by_side, **multiply.params)

    def rest(weights: list[jax.Array], table: jax.Array, words: Any, *inputs: Any) -> Any:
        instead: dict[int, Callable[[Values], jax.Array]] = {}

        def look_up(values: Values) -> jax.Array:
            vectors, index = (values[variable] for variable in lookup.invars)
            rows = lookup.primitive.bind(table, index, **{**lookup.params, "slice_sizes": (1, ends[-1])})
            rows = jnp.split(rows.reshape(-1, ends[-1]), ends[:-1], axis=1)
            rows = jax.lax.optimization_barrier(rows)  # not looked up again by each that reads them
            for group, known in zip(groups, rows, strict=True):
                instead.update(group.instead(known))
            return lookup.primitive.bind(vectors, index, **lookup.params)

        instead[place] = look_up
        return jax.tree.unflatten(structure, cut([*weights, *jax.tree.leaves((words, *inputs))], instead))

    return WordProducts(ends[-1], make, rest, used)


@dataclasses.dataclass(frozen=True)
class _Group:
    """Products that lie side by side in the table: one of the tokens' vectors, or all of what one equation mixes.

    Attributes:
      products: with the columns of each.
      mix: the equation that mixes, or None.
    """

    products: tuple[Product, ...]
    mix: JaxprEqn | None

    @property
    def columns(self) -> int:
        return sum(product.columns for product in self.products)

    @property
    def replaced(self) -> list[int]:
        """The numbers of the equations that are computed otherwise."""
        own = [product.equation for product in self.products]
        if self.mix is None:
            return own
        *_, tokens, dimensions = self.mix.invars[1].aval.shape
        # A (E W) is less work than (A E) W where fewer tokens are mixed than a vector has numbers.
        return [self.products[0].mix, *own] if tokens < dimensions else []

    def instead(self, known: jax.Array) -> dict[int, Callable[[Values], jax.Array]]:
        """How; `known`: E W of all of them, <float32>[tokens, columns]."""
        if self.mix is None:
            return {self.products[0].equation: lambda values: known}
        mixed: list[jax.Array] = []  # A E W of all of them, as soon as A is known

        def mix(values: Values) -> jax.Array:
            attention, vectors = (values[variable] for variable in self.mix.invars)
            by_row = known.reshape(*vectors.shape[:-1], self.columns)
            mixed.append(self.mix.primitive.bind(attention, by_row, **self.mix.params).reshape(-1, self.columns))
            return self.mix.primitive.bind(attention, vectors, **self.mix.params)

        def multiplied(columns: slice, values: Values) -> jax.Array:
            return mixed[0][:, columns]

        ends = itertools.accumulate(product.columns for product in self.products)
        ways = {
            product.equation: functools.partial(multiplied, slice(end - product.columns, end))
            for product, end in zip(self.products, ends, strict=True)
        }
        return {self.products[0].mix: mix} | ways


def _groups(products: list[Product], equations: Sequence[JaxprEqn]) -> list[_Group]:
    """Together what is mixed by one equation, each other product alone."""
    together: dict[Any, list[Product]] = {}
    for product in products:
        together.setdefault(product if product.mix is None else product.mix, []).append(product)
    return [
        _Group(tuple(group), None if group[0].mix is None else equations[group[0].mix]) for group in together.values()
    ]
