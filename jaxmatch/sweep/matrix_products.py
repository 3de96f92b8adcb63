"""Counts the matrix products of a program in its `jaxpr`. Nothing is compiled or run.

The count is exact, with two exceptions: a loop of unknown length counts as one iteration, and the padding of a
convolution counts as input. A convolution is one product.
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
    """
    return count_program(jax.make_jaxpr(function)(*arguments).jaxpr)


def count_program(program: Any) -> MatrixProducts:
    """Counts the matrix products of a `jaxpr`."""
    multiply_adds = products = 0
    for equation in program.eqns:
        name = equation.primitive.name
        parts = [count_program(part) for part in programs_of(equation.params.values())]
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
