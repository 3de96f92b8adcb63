"""Counts the matrix products of a program in its `jaxpr`. Nothing is compiled or run.

The count is exact. An estimate (`exact=False`) also takes programs that cannot be counted exactly: a loop of unknown
length counts as one iteration, and a convolution counts as one product, with its padding.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax


class MatrixProducts(NamedTuple):
    """The matrix products of a program.

    Attributes:
      multiply_adds: the multiply-adds of all products. Each is two floating-point operations.
      products: the number of products.
    """

    multiply_adds: int
    products: int


def count(function: Callable, *arguments: Any) -> MatrixProducts:
    """Counts the matrix products of a function.

    Arguments:
      function: a function of arrays.
      arguments: its arguments, arrays or `jax.ShapeDtypeStruct`s.

    Raises:
      ValueError: the program has a product in a loop of unknown length, or a convolution.
    """
    return count_program(jax.make_jaxpr(function)(*arguments).jaxpr)


def count_program(program: Any, *, exact: bool = True) -> MatrixProducts:
    """Counts the matrix products of a `jaxpr`, as `count` does. `exact=False` returns an estimate where it raises."""
    multiply_adds = products = 0
    for equation in program.eqns:
        name = equation.primitive.name
        parts = [count_program(part, exact=exact) for part in programs_of(equation.params.values())]
        if exact and name == "conv_general_dilated":
            raise ValueError("a convolution is not counted")
        if exact and name == "while" and any(part.products for part in parts):
            raise ValueError("how often a while loop computes its products is not known")
        if name in _OF_ONE:
            parts, times = [MatrixProducts(_OF_ONE[name](equation), 1)], 1
        elif name == "cond":  # only one of its branches runs
            parts, times = [max(parts)], 1
        else:
            times = equation.params["length"] if name == "scan" else 1
            times *= equation.params["mesh"].size if name == "shard_map" else 1
        multiply_adds += times * sum(part.multiply_adds for part in parts)
        products += times * sum(part.products for part in parts)
    return MatrixProducts(multiply_adds, products)


def programs_of(values: Any) -> Iterator[Any]:
    """Yields the programs among an equation's parameters."""
    for value in values:
        if hasattr(value, "eqns"):
            yield value
        elif isinstance(value, tuple | list):
            yield from programs_of(value)


def _dot_general(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)


def _convolution(equation: Any) -> int:
    kernel, (outputs, *_) = equation.invars[1].aval.shape, equation.params["dimension_numbers"].rhs_spec
    return math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) // kernel[outputs]


# The name of an equation -> the function that counts its multiply-adds.
_OF_ONE = {"dot_general": _dot_general, "conv_general_dilated": _convolution}
