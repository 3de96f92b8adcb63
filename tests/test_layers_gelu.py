import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.layers.core import gelu

POINTS = jnp.linspace(-6, 6, 241)


def test_gelu_is_the_tanh_approximation():
    np.testing.assert_allclose(gelu(POINTS), jax.nn.gelu(POINTS, approximate=True), atol=1e-6)


def test_gradient_equals_that_of_jax_nn_gelu():
    slope = jax.vmap(jax.grad(gelu))(POINTS)
    np.testing.assert_allclose(slope, jax.vmap(jax.grad(lambda x: jax.nn.gelu(x, approximate=True)))(POINTS), atol=1e-5)


def test_the_value_is_the_same_with_and_without_a_gradient():
    with_gradient, _ = jax.vjp(gelu, POINTS)
    np.testing.assert_allclose(with_gradient, gelu(POINTS), atol=1e-6)


def test_backward_keeps_one_array():
    kept = jax.tree.leaves(jax.eval_shape(lambda inputs: jax.vjp(gelu, inputs)[1], POINTS))
    assert [leaf.shape for leaf in kept] == [POINTS.shape]
