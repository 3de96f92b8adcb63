"""Finds the equations of a jaxpr that multiply word vectors by weights."""

import dataclasses

import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

# Dimension numbers of <float32>[tokens, dimensions] @ <float32>[dimensions, columns].
_MATRIX_PRODUCT = (((1,), (0,)), ((), ()))
# Dimension numbers of <float32>[batch, length, tokens] @ <float32>[batch, tokens, dimensions].
_BATCHED_PRODUCT = (((2,), (1,)), ((0,), (0,)))
# Primitives that keep the order of the numbers if the size stays the same. For a batch of one, JAX drops the batch axis
# before it multiplies.
_RESHAPES = ("reshape", "squeeze", "broadcast_in_dim")


@dataclasses.dataclass(frozen=True)
class WordProduct:
    """An equation E W or (A E) W of token vectors E, attention weights A and a whole weight W, all float32.

    Attributes:
      equation: the index of the equation.
      attended: the index of the equation that computes A E; None for E W.
      weight: the index of W among the weights.
      columns: the number of columns of W.
    """

    equation: int
    attended: int | None
    weight: int
    columns: int


def find_word_products(jaxpr: Jaxpr, weights: int) -> tuple[int, list[WordProduct]]:
    """Finds the first lookup of word vectors and the products of its result.

    Arguments:
      jaxpr: the jaxpr. Its first arguments are the weights, and the next argument is the table of word vectors.
      weights: the number of weights.

    Returns:
      The index of the lookup, and the products. All products have the same parameters (precision, type of the result),
      so that one product with the weights side by side computes them all.
    """
    index_of = {variable: index for index, variable in enumerate(jaxpr.invars[:weights])}
    tables = {jaxpr.invars[weights]}
    attended: dict[Var, int | None] = {}  # variable -> None if it is E, the equation's index if it is A E
    lookup, found = -1, []
    for index, equation in enumerate(jaxpr.eqns):
        name, read = equation.primitive.name, _arguments(equation)
        if not read or not equation.outvars:
            continue
        written = equation.outvars[0]
        if name == "stop_gradient" and read[0] in tables:
            tables.add(written)
        elif name == "gather" and read[0] in tables and lookup < 0 and _gathers_rows(equation):
            lookup, attended[written] = index, None
        elif name in _RESHAPES and read[0] in attended and _extents(written) == _extents(read[0]):
            attended[written] = attended[read[0]]
        elif (
            name == "dot_general"
            and attended.get(read[-1], -1) is None
            and _is_product(equation, _BATCHED_PRODUCT, _MATRIX_PRODUCT)
        ):
            attended[written] = index
        elif (
            name == "dot_general"
            and read[0] in attended
            and read[-1] in index_of
            and _is_product(equation, _MATRIX_PRODUCT)
        ):
            found.append(WordProduct(index, attended[read[0]], index_of[read[-1]], written.aval.shape[1]))
    parameters = jaxpr.eqns[found[0].equation].params if found else None
    return lookup, [product for product in found if jaxpr.eqns[product.equation].params == parameters]


def _arguments(equation: JaxprEqn) -> list[Var]:
    """Returns the variables that an equation reads; no variables if it also reads a literal."""
    return [] if any(isinstance(atom, Literal) for atom in equation.invars) else list(equation.invars)


def _extents(variable: Var) -> tuple[int, int]:
    """Returns the size of an array and the size of its last axis."""
    return variable.aval.size, variable.aval.shape[-1]


def _gathers_rows(lookup: JaxprEqn) -> bool:
    """Returns whether a gather reads whole rows of a table into the last axis of its result."""
    table, result, numbers = lookup.invars[0].aval, lookup.outvars[0].aval, lookup.params["dimension_numbers"]
    return (
        lookup.params["slice_sizes"] == (1, table.shape[1])
        and numbers.offset_dims == (result.ndim - 1,)
        and numbers.start_index_map == numbers.collapsed_slice_dims == (0,)
        and lookup.params["fill_value"] is None
    )


def _is_product(equation: JaxprEqn, *dimension_numbers: tuple) -> bool:
    """Returns whether a `dot_general` has float32 factors, a float32 result and one of these dimension numbers."""
    float32 = all(variable.aval.dtype == jnp.float32 for variable in (*equation.invars, *equation.outvars))
    return float32 and equation.params["dimension_numbers"] in dimension_numbers
