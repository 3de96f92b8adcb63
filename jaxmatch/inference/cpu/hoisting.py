"""Splits a program in two: operations on weights alone, computed once, and the rest, computed for every batch.

Slicing, transposing, adding and concatenating kernels takes a considerable part of the time of a small batch, and the
result is the same for all batches (benchmarks/NOTES.md).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Var, jaxpr_as_fun

from jaxmatch.inference.cpu.rewriting import variables

# Primitives whose results are about as large as their arguments, so that hoisting them costs hardly any memory.
_HOISTED = frozenset(
    {"add", "concatenate", "convert_element_type", "neg", "reshape", "slice", "split", "squeeze", "transpose"}
)


@dataclasses.dataclass(frozen=True)
class HoistedProgram:
    """A function in two parts: `apply(prepare(weights), *inputs)` equals `function(weights, *inputs)`.

    Attributes:
      prepare: weights -> prepared weights.
      apply: prepared weights and inputs -> the result of the function.
      key: the jaxpr of `prepare` as text. Programs with equal keys prepare the same weights in the same way.
    """

    prepare: Callable[[Any], list[jax.Array]]
    apply: Callable[..., Any]
    key: str


def hoist(function: Callable[..., Any], weights: Any, *inputs: Any) -> HoistedProgram:
    """Hoists the operations on weights alone out of `function(weights, *inputs)`.

    Arguments:
      function: a function that can be traced, draws no random numbers and has no side effects.
      weights, inputs: the arguments of the function, or their shapes and dtypes (`jax.ShapeDtypeStruct`).

    Returns:
      Both parts, for arguments of exactly these shapes and dtypes. `prepare` is jitted, `apply` is not.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, *inputs)
    jaxpr = closed.jaxpr
    count = len(jax.tree.leaves(weights))
    weight_variables, input_variables = list(jaxpr.invars[:count]), list(jaxpr.invars[count:])
    known: set[Var] = set(weight_variables)  # the variables that depend on weights alone
    hoisted, remaining = [], []
    for equation in jaxpr.eqns:
        arguments = variables(equation.invars)
        if equation.primitive.name in _HOISTED and arguments and known.issuperset(arguments):
            hoisted.append(equation)
            known.update(equation.outvars)
        else:
            remaining.append(equation)
    read = variables([variable for equation in remaining for variable in equation.invars] + list(jaxpr.outvars))
    kept = [variable for variable in dict.fromkeys(read) if variable in known]
    first = ClosedJaxpr(jaxpr.replace(constvars=[], invars=weight_variables, outvars=kept, eqns=hoisted), [])
    second = ClosedJaxpr(jaxpr.replace(invars=kept + input_variables, eqns=remaining), closed.consts)
    structure = jax.tree.structure(result)

    @jax.jit
    def prepare(weights: Any) -> list[jax.Array]:
        return jaxpr_as_fun(first)(*jax.tree.leaves(weights))

    def apply(prepared: list[jax.Array], *inputs: Any) -> Any:
        return jax.tree.unflatten(structure, jaxpr_as_fun(second)(*prepared, *jax.tree.leaves(inputs)))

    return HoistedProgram(prepare, apply, str(first.jaxpr))
