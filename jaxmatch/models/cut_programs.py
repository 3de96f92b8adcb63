"""A traced program some of whose equations are computed otherwise."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

Values = dict[Var, jax.Array]


class CutProgram:
    """A program cut before and behind each of some equations.

    Arguments:
      closed: the program.
      cuts: the numbers of the equations; each has one result.
    """

    def __init__(self, closed: ClosedJaxpr, cuts: Iterable[int]):
        self._closed, self._pieces = closed, []
        program, start = closed.jaxpr, 0
        read = set(variables(program.outvars))
        for cut in (*sorted(cuts), len(program.eqns)):
            self._pieces.append((cut, program.eqns[start:cut]))
            start = cut + 1
        for number, (cut, equations) in reversed(list(enumerate(self._pieces))):
            if cut < len(program.eqns):
                read.update(variables(program.eqns[cut].invars))
            piece = _Piece(program, equations, read)
            read.update(piece.reads)
            self._pieces[number] = cut, piece

    def __call__(self, arguments: Sequence[jax.Array], instead: Mapping[int, Callable[[Values], jax.Array]]) -> list[Any]:
        """What the program gives for its arguments, where `instead` says what each of the cut equations gives.

        Arguments:
          arguments: those of the program.
          instead: the number of an equation -> a function of all that was computed before it.
        """
        program = self._closed.jaxpr
        values = dict(zip((*program.constvars, *program.invars), (*self._closed.consts, *arguments), strict=True))
        for cut, piece in self._pieces:
            values |= piece(values)
            if cut < len(program.eqns):
                values[program.eqns[cut].outvars[0]] = instead[cut](values)
        return [atom.val if isinstance(atom, Literal) else values[atom] for atom in program.outvars]


class _Piece:
    """Equations that follow each other, as a function of what they read of others; `wanted`: variables that are read later."""

    def __init__(self, program: Any, equations: Sequence[JaxprEqn], wanted: set[Var]):
        made = dict.fromkeys(variable for equation in equations for variable in equation.outvars)
        read = dict.fromkeys(variables(atom for equation in equations for atom in equation.invars))
        self.reads = [variable for variable in read if variable not in made]
        self._writes = [variable for variable in made if variable in wanted]
        piece = program.replace(constvars=[], invars=self.reads, outvars=self._writes, eqns=list(equations))
        self._function = jaxpr_as_fun(ClosedJaxpr(piece, []))

    def __call__(self, values: Values) -> Values:
        return dict(zip(self._writes, self._function(*(values[variable] for variable in self.reads)), strict=True))


def variables(atoms: Iterable[Any]) -> list[Var]:
    """Those of the atoms that are no literals."""
    return [atom for atom in atoms if not isinstance(atom, Literal)]
