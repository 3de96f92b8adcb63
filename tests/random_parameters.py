"""Random parameters and cheap compilation for tests of layers and models, and the equations of a traced program."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from jaxmatch.models.pair_model import pair_rows


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


def linear(params, inputs):
    """Computes a dense layer in float64."""
    return inputs @ np.asarray(params["kernel"], np.float64) + np.asarray(params.get("bias", 0.0), np.float64)


def check_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


def check_logits(module, params, ids_a, ids_b, vectors, expected):
    """Checks that a model computes the expected logits, with padding at the ends of rows and between their tokens."""
    match = compiled(lambda ids, which: module.apply({"params": params}, {"ids": ids}, which, vectors, method="match"))
    tokens, sentences = pair_rows({"ids": ids_a}, {"ids": ids_b})
    ids, sentences = np.asarray(tokens["ids"]), np.asarray(sentences)
    check_close(match(ids, sentences), expected)
    spread_ids, spread = np.zeros_like(ids), np.zeros_like(sentences)
    generator = np.random.default_rng(0)
    for row in range(len(ids)):
        real = np.flatnonzero(sentences[row])
        places = np.sort(generator.choice(ids.shape[1], len(real), replace=False))
        spread_ids[row, places], spread[row, places] = ids[row, real], sentences[row, real]
    assert np.any(spread != sentences, axis=1).all()
    check_close(match(spread_ids, spread), expected)
