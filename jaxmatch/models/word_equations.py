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
class Vectors:
    """What a variable holds of the tokens' vectors E: E itself, A E, or E - A E.

    Attributes:
      mix: the equation A E, by number; None: the variable holds E.
      less: whether it holds E - A E.
    """

    mix: int | None = None
    less: bool = False


@dataclasses.dataclass(frozen=True)
class Product:
    """An equation, by number, that multiplies vectors with a whole weight, by number; of float32 all.

    Attributes:
      equation, vectors, weight: its number, what it multiplies, and with which of the weights.
      columns: the size of its result's last axis.
    """

    equation: int
    vectors: Vectors
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
    tables, held = {program.invars[weights]}, {}
    place, found = -1, []
    for number, equation in enumerate(program.eqns):
        name, read = equation.primitive.name, _variables(equation)
        if not read or not equation.outvars:
            continue
        written, vectors = equation.outvars[0], held.get(read[0])
        if name == "stop_gradient" and read[0] in tables:
            tables.add(written)
        elif name == "gather" and read[0] in tables and place < 0 and _takes_rows(equation):
            place, held[written] = number, Vectors()
        elif name in _OTHER_AXES and vectors and _size(written) == _size(read[0]):
            held[written] = vectors
        elif name == "dot_general" and held.get(read[-1]) == Vectors() and _multiplies(equation, _IN_EACH_ROW, _OF_MATRICES):
            held[written] = Vectors(mix=number)
        elif name == "sub" and vectors == Vectors() and _is_mixed(held.get(read[-1])) and read[0].aval.shape == read[-1].aval.shape:
            held[written] = dataclasses.replace(held[read[-1]], less=True)
        elif name == "dot_general" and vectors and read[-1] in number_of and _multiplies(equation, _OF_MATRICES):
            found.append(Product(number, vectors, number_of[read[-1]], written.aval.shape[1]))
    return place, [one for one in found if program.eqns[one.equation].params == program.eqns[found[0].equation].params]


def _variables(equation: JaxprEqn) -> list[Var]:
    """What an equation reads; nothing where some of it is a literal."""
    return [] if any(isinstance(atom, Literal) for atom in equation.invars) else list(equation.invars)


def _size(variable: Var) -> tuple[int, int]:
    """Of all of it, and of its last axis."""
    return variable.aval.size, variable.aval.shape[-1]


def _is_mixed(vectors: Vectors | None) -> bool:
    return vectors is not None and vectors.mix is not None and not vectors.less


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
