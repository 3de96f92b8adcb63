"""A model's matrix products and nothing else: what the time of its answer is held against."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.ceiling import programs_of
from jaxmatch.inference.cpu.compiler_options import compiler_options


def of(function: Callable, *arguments: Any) -> Callable[[], None]:
    """A program of the products that `function` traces to, in one call; what is a factor of several there is so here.

    On a CPU it is compiled as programs that answer are.

    Arguments:
      function: of arrays; its loops run once, as inference has none.
      arguments: arrays or `jax.ShapeDtypeStruct`s.

    Returns:
      a function that computes them once and waits for their end.
    """
    found = list(_products(jax.make_jaxpr(function)(*arguments).jaxpr))
    generator = np.random.default_rng(0)
    factors: dict[str, jax.Array] = {}
    names = []
    for place, equation in found:
        names.append([f"{place}{id(factor)}" for factor in equation.invars])
        for name, factor in zip(names[-1], equation.invars, strict=True):
            if name not in factors:
                factors[name] = jax.device_put(generator.normal(size=factor.aval.shape).astype(factor.aval.dtype))

    def products(factors: dict[str, jax.Array]) -> list[jax.Array]:
        return [
            equation.primitive.bind(*(factors[name] for name in pair), **equation.params)
            for (_, equation), pair in zip(found, names, strict=True)
        ]

    options = compiler_options() if jax.default_backend() == "cpu" else None
    compiled = jax.jit(products, compiler_options=options).lower(factors).compile()

    def work() -> None:
        jax.block_until_ready(compiled(factors))

    return work


def _products(program: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The products with their place: a program that is called twice has the same variables, but not the same values."""
    for number, equation in enumerate(program.eqns):
        if equation.primitive.name == "dot_general":
            yield place, equation
        for part in programs_of(equation.params.values()):
            yield from _products(part, f"{place}{number}.")
