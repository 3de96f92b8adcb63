"""A model's matrix products and nothing else: the least that its answer could take here."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.ceiling import programs_of


def of(function: Callable, *arguments: Any) -> Callable[[], None]:
    """A program of the products that `function` traces to, each with factors of its own, in one call.

    Arguments:
      function: of arrays; its loops run once, as inference has none.
      arguments: arrays or `jax.ShapeDtypeStruct`s.

    Returns:
      a function that computes them once and waits for their end.
    """
    equations = list(_products(jax.make_jaxpr(function)(*arguments).jaxpr))
    generator = np.random.default_rng(0)
    factors = [
        [jax.device_put(generator.normal(size=factor.aval.shape).astype(factor.aval.dtype)) for factor in equation.invars]
        for equation in equations
    ]

    def products(factors: list[list[jax.Array]]) -> list[jax.Array]:
        return [equation.primitive.bind(*pair, **equation.params) for equation, pair in zip(equations, factors, strict=True)]

    compiled = jax.jit(products).lower(factors).compile()

    def work() -> None:
        jax.block_until_ready(compiled(factors))

    return work


def _products(program: Any) -> Iterator[Any]:
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            yield equation
        for part in programs_of(equation.params.values()):
            yield from _products(part)
