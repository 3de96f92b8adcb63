"""Replacement of some equations of a jaxpr."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import Literal

from jaxmatch.inference.cpu import RewrittenJaxpr

CONSTANT = jnp.arange(6.0).reshape(2, 3)
ARGUMENTS = np.full((2, 3), 0.5, np.float32), np.array([1.0, -2.0, 3.0], np.float32)


def program(values, weights):
    scaled = values * weights[None] + CONSTANT
    parts = jnp.split(jnp.sin(scaled), 3, axis=1)
    return parts[2] - 2.0, jax.nn.softmax(scaled), values, 3.0


TRACED = jax.make_jaxpr(program)(*ARGUMENTS)
EQUATIONS = TRACED.jaxpr.eqns
SINGLE_OUTPUT = [number for number, equation in enumerate(EQUATIONS) if len(equation.outvars) == 1]


def original_equation(number):
    def value(values):
        factors = [atom.val if isinstance(atom, Literal) else values[atom] for atom in EQUATIONS[number].invars]
        return EQUATIONS[number].primitive.bind(*factors, **EQUATIONS[number].params)

    return value


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from(SINGLE_OUTPUT)))
def test_equations_replaced_by_themselves_change_nothing(cuts):
    found = RewrittenJaxpr(TRACED, cuts)(ARGUMENTS, {number: original_equation(number) for number in cuts})
    for one, other in zip(found, program(*ARGUMENTS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_replacement_receives_earlier_values_and_sets_the_result():
    (sine,) = [number for number, equation in enumerate(EQUATIONS) if equation.primitive.name == "sin"]
    seen = []

    def value(values):
        seen.append(values[EQUATIONS[sine].invars[0]])
        return jnp.full((2, 3), 7.0)

    difference, *others = RewrittenJaxpr(TRACED, [sine])(ARGUMENTS, {sine: value})
    np.testing.assert_array_equal(difference, np.full((2, 1), 5.0))
    np.testing.assert_allclose(seen, [ARGUMENTS[0] * ARGUMENTS[1] + CONSTANT])
    for one, other in zip(others, program(*ARGUMENTS)[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_rewritten_jaxpr_can_be_jitted():
    rewritten = RewrittenJaxpr(TRACED, [0])
    found = jax.jit(lambda *arguments: rewritten(arguments, {0: original_equation(0)}))(*ARGUMENTS)
    for one, other in zip(found, program(*ARGUMENTS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
