"""A program cut in two: what only moves or adds weights, to be done once, and the rest, to be done with every batch.

Cutting kernels up, turning them over, adding them and laying them side by side is a good part of the time of a small batch, and the
same for all of them (benchmarks/NOTES.md).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Var, jaxpr_as_fun

from jaxmatch.models.cut_programs import variables

# Primitives whose results hold about as many numbers as the arguments.
_MOVES = frozenset({"add", "concatenate", "convert_element_type", "neg", "reshape", "slice", "split", "squeeze", "transpose"})


@dataclasses.dataclass(frozen=True)
class WeightMoves:
    """A function of weights and inputs as two: `rest(move(weights), *inputs)` is `function(weights, *inputs)`.

    Attributes:
      move: weights -> the list of weights as they are computed with.
      rest: that list and the inputs -> the function's result.
      written: what `move` does; programs of which it is equal make the same list from the same weights.
    """

    move: Callable[[Any], list[jax.Array]]
    rest: Callable[..., Any]
    written: str


def apart(function: Callable[..., Any], weights: Any, *inputs: Any) -> WeightMoves:
    """Cuts `function(weights, *inputs)`.

    Arguments:
      function: can be compiled; draws no random number and has no effect but its result.
      weights, inputs: its arguments, or their shapes and types (`jax.ShapeDtypeStruct`).

    Returns:
      both parts, for arguments of just these shapes and types; the first is compiled at its first call.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, *inputs)
    program = closed.jaxpr
    count = len(jax.tree.leaves(weights))
    own, others = list(program.invars[:count]), list(program.invars[count:])
    made: set[Var] = set(own)
    moves, remaining = [], []
    for equation in program.eqns:
        arguments = variables(equation.invars)
        moved = equation.primitive.name in _MOVES and arguments and made.issuperset(arguments)
        (moves if moved else remaining).append(equation)
        if moved:
            made.update(equation.outvars)
    read = variables([variable for equation in remaining for variable in equation.invars] + list(program.outvars))
    kept = [variable for variable in dict.fromkeys(read) if variable in made]
    first = ClosedJaxpr(program.replace(constvars=[], invars=own, outvars=kept, eqns=moves), [])
    second = ClosedJaxpr(program.replace(invars=kept + others, eqns=remaining), closed.consts)
    structure = jax.tree.structure(result)

    @jax.jit
    def move(weights: Any) -> list[jax.Array]:
        return jaxpr_as_fun(first)(*jax.tree.leaves(weights))

    def rest(moved: list[jax.Array], *inputs: Any) -> Any:
        return jax.tree.unflatten(structure, jaxpr_as_fun(second)(*moved, *jax.tree.leaves(inputs)))

    return WeightMoves(move, rest, str(first.jaxpr))
