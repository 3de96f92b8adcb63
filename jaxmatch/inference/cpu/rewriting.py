"""Evaluates a jaxpr with some of its equations replaced."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

Values = dict[Var, jax.Array]


class RewrittenJaxpr:
    """A jaxpr in which given functions compute some of the equations.

    Arguments:
      closed: the jaxpr.
      replaced: the indices of the equations to replace. Each equation has one result.
    """

    def __init__(self, closed: ClosedJaxpr, replaced: Iterable[int]):
        self._closed, self._segments = closed, []
        jaxpr, start = closed.jaxpr, 0
        for index in (*sorted(replaced), len(jaxpr.eqns)):
            self._segments.append((index, jaxpr.eqns[start:index]))
            start = index + 1
        # Segments are built from the last to the first, since each returns the variables that are read after it.
        read = set(variables(jaxpr.outvars))
        for number, (index, equations) in reversed(list(enumerate(self._segments))):
            if index < len(jaxpr.eqns):
                read.update(variables(jaxpr.eqns[index].invars))
            segment = _Segment(jaxpr, equations, read)
            read.update(segment.reads)
            self._segments[number] = index, segment

    def __call__(
        self, arguments: Sequence[jax.Array], replacements: Mapping[int, Callable[[Values], jax.Array]]
    ) -> list[Any]:
        """Evaluates the jaxpr.

        Arguments:
          arguments: the arguments of the jaxpr.
          replacements: index of a replaced equation -> a function of the values known so far that returns the
            equation's result. The function is looked up when the equation is reached, so a replacement may add the
            functions of later equations.

        Returns:
          The results of the jaxpr.
        """
        jaxpr = self._closed.jaxpr
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*self._closed.consts, *arguments), strict=True))
        for index, segment in self._segments:
            values |= segment(values)
            if index < len(jaxpr.eqns):
                values[jaxpr.eqns[index].outvars[0]] = replacements[index](values)
        return [atom.val if isinstance(atom, Literal) else values[atom] for atom in jaxpr.outvars]


class _Segment:
    """Consecutive equations as a function of the variables they read; `wanted`: the variables that are read later."""

    def __init__(self, jaxpr: Any, equations: Sequence[JaxprEqn], wanted: set[Var]):
        written = dict.fromkeys(variable for equation in equations for variable in equation.outvars)
        read = dict.fromkeys(variables(atom for equation in equations for atom in equation.invars))
        self.reads = [variable for variable in read if variable not in written]
        self._returns = [variable for variable in written if variable in wanted]
        segment = jaxpr.replace(constvars=[], invars=self.reads, outvars=self._returns, eqns=list(equations))
        self._function = jaxpr_as_fun(ClosedJaxpr(segment, []))

    def __call__(self, values: Values) -> Values:
        return dict(zip(self._returns, self._function(*(values[variable] for variable in self.reads)), strict=True))


def variables(atoms: Iterable[Any]) -> list[Var]:
    """Returns the atoms that are variables, without literals."""
    return [atom for atom in atoms if not isinstance(atom, Literal)]
