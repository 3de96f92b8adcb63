"""Cheap starts for tests of layers and models, where compiling is what takes the time; what a traced program holds."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np


def random_parameters(module, *inputs, seed=0):
    """Parameters of the module's shapes, none at its start: no bias at zero, so that what is done with padding would
    show.
    """
    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs)["params"]
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(0.1 + 0.3 * generator.normal(size=leaf.shape), jnp.float32), shapes)


def compiled(function):
    """Compiles without optimising."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def applied(module, variables, *inputs, **named):
    """`module.apply` in one program, not a program for every operation in it."""
    return jax.jit(lambda variables: module.apply(variables, *inputs, **named))(variables)


def equations(jaxpr):
    """The equations of a jaxpr and of all inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from equations(inner)
