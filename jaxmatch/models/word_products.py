"""A program in which the products of the word vectors are looked up: they are made once for each word of the vocabulary.

Without dropout, what a weight makes of a word's vector does not depend on the sentence. In RE2 a third of all multiply-adds of an
answer are such products; to look one up costs a CPU less than to make it (benchmarks/NOTES.md).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, jaxpr_as_fun

# Of a product <float32>[tokens, dimensions] @ <float32>[dimensions, columns].
_OF_MATRICES = (((1,), (0,)), ((), ()))


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
    """Finds the products of looked-up word vectors with whole weights, of float32 all.

    Arguments:
      function: can be compiled; draws no random number and has no effect but its result.
      weights: its first argument: arrays, or their shapes and types (`jax.ShapeDtypeStruct`).
      words: the second, arrays of which the first are the word vectors, <float32>[words, dimensions].
      inputs: its other arguments.

    Returns:
      both parts, not compiled yet, for arguments of just these shapes and types; None where there is no such product.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, words, *inputs)
    program = closed.jaxpr
    number_of = {variable: number for number, variable in enumerate(program.invars[: len(weights)])}
    place, of_tokens = _lookup(program.eqns, program.invars[len(weights)])
    found = [equation for equation in program.eqns if _multiplies(equation, of_tokens, number_of)]
    if not found:
        return None
    found = [equation for equation in found if equation.params == found[0].params]  # they become one product
    lookup = program.eqns[place]
    results = [equation.outvars[0] for equation in found]
    used = tuple(number_of[equation.invars[1]] for equation in found)
    ends = [sum(result.aval.shape[1] for result in results[:count]) for count in range(1, len(results) + 1)]
    before = ClosedJaxpr(program.replace(outvars=[lookup.invars[1]], eqns=program.eqns[:place]), closed.consts)
    after = ClosedJaxpr(
        program.replace(invars=[*results, *program.invars], eqns=[each for each in program.eqns if each not in found]), closed.consts
    )
    structure = jax.tree.structure(result)

    def make(weights: list[jax.Array], vectors: jax.Array) -> jax.Array:
        side_by_side = jnp.concatenate([weights[number] for number in used], axis=1)
        return found[0].primitive.bind(vectors, side_by_side, **found[0].params)

    def rest(weights: list[jax.Array], table: jax.Array, words: Any, *inputs: Any) -> Any:
        arguments = [*weights, *jax.tree.leaves((words, *inputs))]
        (index,) = jaxpr_as_fun(before)(*arguments)
        known = lookup.primitive.bind(table, index, **{**lookup.params, "slice_sizes": (1, ends[-1])})
        products = jnp.split(known.reshape(-1, ends[-1]), ends[:-1], axis=1)
        products = jax.lax.optimization_barrier(products)  # not looked up again by each that reads them
        return jax.tree.unflatten(structure, jaxpr_as_fun(after)(*products, *arguments))

    return WordProducts(ends[-1], make, rest, used)


def _lookup(equations: list[JaxprEqn], vectors: Any) -> tuple[int, set]:
    """The place of the first lookup of whole word vectors, and the variables that hold what it gives, a row a token."""
    tables, of_tokens, place = {vectors}, set(), -1
    for number, equation in enumerate(equations):
        read = equation.invars[0] if equation.invars else None
        if isinstance(read, Literal):
            continue
        name, written = equation.primitive.name, equation.outvars[0] if equation.outvars else None
        if name == "stop_gradient" and read in tables:
            tables.add(written)
        elif name == "gather" and read in tables and not of_tokens and _takes_rows(equation):
            place = number
            of_tokens.add(written)
        elif name == "reshape" and read in of_tokens and written.aval.shape[-1] == read.aval.shape[-1]:
            of_tokens.add(written)
    return place, of_tokens


def _takes_rows(lookup: JaxprEqn) -> bool:
    """Whether a lookup gives rows of a table as they are, along the last axis of its result."""
    table, result, numbers = lookup.invars[0].aval, lookup.outvars[0].aval, lookup.params["dimension_numbers"]
    return (
        lookup.params["slice_sizes"] == (1, table.shape[1])
        and numbers.offset_dims == (result.ndim - 1,)
        and numbers.start_index_map == numbers.collapsed_slice_dims == (0,)
        and lookup.params["fill_value"] is None
    )


def _multiplies(equation: JaxprEqn, of_tokens: set, weights: dict) -> bool:
    """Whether an equation multiplies the vectors of tokens with a weight."""
    if equation.primitive.name != "dot_general" or any(isinstance(factor, Literal) for factor in equation.invars):
        return False
    left, right = equation.invars
    float32 = all(variable.aval.dtype == jnp.float32 for variable in (left, right, *equation.outvars))
    return left in of_tokens and right in weights and float32 and equation.params["dimension_numbers"] == _OF_MATRICES
