"""Random parameters and cheap compilation for tests of layers and models, and the equations of a traced program."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np


def random_parameters(module, *inputs, seed=0):
    """Returns random parameters of the module's shapes. No bias stays at its initial zero, which would hide mistakes
    with padding.
    """
    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs)["params"]
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(0.1 + 0.3 * generator.normal(size=leaf.shape), jnp.float32), shapes)


def compiled(function):
    """Compiles a function without optimizations."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def applied(module, variables, *inputs, **named):
    """Computes `module.apply` as one program, because a program for each operation takes longer to compile."""
    return jax.jit(lambda variables: module.apply(variables, *inputs, **named))(variables)


def equations(jaxpr):
    """Yields the equations of a jaxpr and of all jaxprs inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from equations(inner)
