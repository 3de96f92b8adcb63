"""Which equations of a traced program multiply the vectors of words with weights."""

import dataclasses

import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

# Of a product <float32>[tokens, dimensions] @ <float32>[dimensions, columns].
_OF_MATRICES = (((1,), (0,)), ((), ()))
# Of a product <float32>[batch, length, tokens] @ <float32>[batch, tokens, dimensions].
_IN_EACH_ROW = (((2,), (1,)), ((0,), (0,)))
# May give the same numbers in the same order with other axes; JAX multiplies in a batch of one without its axis.
_OTHER_AXES = ("reshape", "squeeze", "broadcast_in_dim")


@dataclasses.dataclass(frozen=True)
class Product:
    """An equation that multiplies the tokens' vectors E, or a mixture A E of them, with a whole weight; of float32 all.

    Attributes:
      equation: its number.
      mix: the number of the equation that makes A E; None: it multiplies E itself.
      weight: the number of the weight.
      columns: the size of its result's last axis.
    """

    equation: int
    mix: int | None
    weight: int
    columns: int


def products_of_words(program: Jaxpr, weights: int) -> tuple[int, list[Product]]:
    """Finds the first lookup of whole word vectors and what is multiplied of it.

    Arguments:
      program: its first variables are the weights, the next the table of word vectors.
      weights: how many there are.

    Returns:
      the number of the lookup's equation, and the products, all with the same parameters, so that they can be made as one.
    """
    number_of = {variable: number for number, variable in enumerate(program.invars[:weights])}
    tables = {program.invars[weights]}
    mixes: dict[Var, int | None] = {}  # of each variable that holds E or A E
    place, found = -1, []
    for number, equation in enumerate(program.eqns):
        name, read = equation.primitive.name, _variables(equation)
        if not read or not equation.outvars:
            continue
        written = equation.outvars[0]
        if name == "stop_gradient" and read[0] in tables:
            tables.add(written)
        elif name == "gather" and read[0] in tables and place < 0 and _takes_rows(equation):
            place, mixes[written] = number, None
        elif name in _OTHER_AXES and read[0] in mixes and _size(written) == _size(read[0]):
            mixes[written] = mixes[read[0]]
        elif name == "dot_general" and mixes.get(read[-1], -1) is None and _multiplies(equation, _IN_EACH_ROW, _OF_MATRICES):
            mixes[written] = number
        elif name == "dot_general" and read[0] in mixes and read[-1] in number_of and _multiplies(equation, _OF_MATRICES):
            found.append(Product(number, mixes[read[0]], number_of[read[-1]], written.aval.shape[1]))
    return place, [one for one in found if program.eqns[one.equation].params == program.eqns[found[0].equation].params]


def _variables(equation: JaxprEqn) -> list[Var]:
    """What an equation reads; nothing where some of it is a literal."""
    return [] if any(isinstance(atom, Literal) for atom in equation.invars) else list(equation.invars)


def _size(variable: Var) -> tuple[int, int]:
    """Of all of it, and of its last axis."""
    return variable.aval.size, variable.aval.shape[-1]


def _takes_rows(lookup: JaxprEqn) -> bool:
    """Whether a lookup gives rows of a table as they are, along the last axis of its result."""
    table, result, numbers = lookup.invars[0].aval, lookup.outvars[0].aval, lookup.params["dimension_numbers"]
    return (
        lookup.params["slice_sizes"] == (1, table.shape[1])
        and numbers.offset_dims == (result.ndim - 1,)
        and numbers.start_index_map == numbers.collapsed_slice_dims == (0,)
        and lookup.params["fill_value"] is None
    )


def _multiplies(equation: JaxprEqn, *ways: tuple) -> bool:
    """Whether it is a product of float32 in one of the ways, by the numbers of its axes."""
    float32 = all(variable.aval.dtype == jnp.float32 for variable in (*equation.invars, *equation.outvars))
    return float32 and equation.params["dimension_numbers"] in ways
