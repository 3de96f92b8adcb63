import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, random_parameters

from jaxmatch.config.models import RE2Config
from jaxmatch.layers import core
from jaxmatch.layers.core import (
    WeightNormDense,
    column_norms,
    fold_weight_norm,
    gelu,
    kernel_of,
    matmul,
    normalized_kernel,
)


class Kernel(nn.Module):
    shape: tuple[int, ...]
    activated: bool
    weight_normalization: str

    @nn.compact
    def __call__(self):
        return normalized_kernel(
            self, self.shape, activated=self.activated, weight_normalization=self.weight_normalization
        )


def initial_kernel(shape=(3, 40, 60), activated=True, weight_normalization="he"):
    kernel, variables = Kernel(shape, activated, weight_normalization).init_with_output(jax.random.key(0))
    return np.asarray(kernel), variables["params"]


@pytest.mark.parametrize("weight_normalization", ["he", "none"])
@pytest.mark.parametrize(("activated", "variance"), [(True, 2 / 120), (False, 1 / 120)])
def test_initial_kernels_have_the_expected_variance(weight_normalization, activated, variance):
    kernel, _ = initial_kernel(activated=activated, weight_normalization=weight_normalization)
    # With 7,200 draws, the standard error of the estimated deviation is below one percent.
    assert abs(kernel.std() / np.sqrt(variance) - 1) < 0.04
    assert abs(kernel.mean()) < 4 * np.sqrt(variance / kernel.size)


def test_he_gain_is_the_norm_so_that_the_kernel_is_the_direction():
    kernel, params = initial_kernel()
    assert set(params) == {"direction", "gain"}
    np.testing.assert_allclose(params["gain"], np.sqrt(np.square(params["direction"]).sum(axis=(0, 1))), rtol=1e-5)
    np.testing.assert_allclose(kernel, params["direction"], rtol=1e-5)


def test_initial_unit_gain_gives_kernel_columns_of_norm_one():
    kernel, params = initial_kernel(weight_normalization="unit")
    np.testing.assert_array_equal(params["gain"], np.ones(60))
    np.testing.assert_allclose(column_norms(jnp.asarray(kernel)), np.ones(60), rtol=1e-5)
    assert abs(np.asarray(params["direction"]).std() / np.sqrt(2 / 120) - 1) < 0.04


def test_kernel_is_the_gain_times_the_normalized_direction():
    module = Kernel((4, 2), True, "he")
    params = {"direction": jnp.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), "gain": jnp.array([10.0, 0.5])}
    kernel = applied(module, {"params": params})
    np.testing.assert_allclose(kernel, [[6, 0], [8, 0], [0, 0.5], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(
        applied(module, {"params": params | {"direction": 7 * params["direction"]}}), kernel, rtol=1e-6
    )


def test_without_normalization_the_kernel_is_the_parameter():
    kernel, params = initial_kernel(weight_normalization="none")
    assert set(params) == {"kernel"}
    np.testing.assert_array_equal(kernel, params["kernel"])


def test_gelu_is_the_tanh_form():
    # 0.5 * 1 * (1 + tanh(sqrt(2 / pi) * 1.044715)); the exact form gives 0.841345.
    np.testing.assert_allclose(gelu(jnp.array([1.0, 0.0, -1.0])), [0.841192, 0.0, -0.158808], atol=1e-6)


def test_dense_equals_hand_computed_values():
    params = {"direction": jnp.array([[3.0], [4.0]]), "gain": jnp.array([5.0]), "bias": jnp.array([0.5])}
    inputs = jnp.array([[1.0, -1.0], [2.0, 0.0]])
    linear = WeightNormDense(RE2Config(), 1, activated=False).apply({"params": params}, inputs)
    np.testing.assert_allclose(linear, [[-0.5], [6.5]], rtol=1e-6)
    np.testing.assert_allclose(
        WeightNormDense(RE2Config(), 1).apply({"params": params}, inputs), gelu(linear), rtol=1e-6
    )


def test_dense_takes_parts_as_if_concatenated():
    parts = [jax.random.normal(jax.random.key(size), (2, 3, size)) for size in (2, 5, 1)]
    whole = jnp.concatenate(parts, axis=-1)
    outputs, variables = WeightNormDense(RE2Config(), 4).init_with_output(jax.random.key(0), *parts)
    assert variables["params"]["direction"].shape == (8, 4)
    np.testing.assert_allclose(outputs, WeightNormDense(RE2Config(), 4).apply(variables, whole), atol=1e-6)
    of_whole = WeightNormDense(RE2Config(), 4).init(jax.random.key(0), whole)["params"]
    np.testing.assert_array_equal(of_whole["direction"], variables["params"]["direction"])


def test_bfloat16_matmul_rounds_its_operands_and_returns_float32():
    left, right = jnp.array([[1.001, 2.0]]), jnp.array([[1.0], [1.0]])
    exact, rounded = matmul(left, right, "float32"), matmul(left, right, "bfloat16")
    assert rounded.dtype == jnp.float32
    np.testing.assert_allclose(exact, [[3.001]], rtol=1e-6)
    np.testing.assert_array_equal(rounded, [[3.0]])
    backward = jax.make_jaxpr(jax.grad(lambda left: matmul(left, right, "bfloat16").sum()))(left)
    products = [equation for equation in backward.jaxpr.eqns if equation.primitive.name == "dot_general"]
    assert products
    assert all(variable.aval.dtype == jnp.bfloat16 for equation in products for variable in equation.invars)


@pytest.mark.parametrize("weight_normalization", ["he", "unit"])
def test_folded_parameters_give_the_same_outputs(weight_normalization):
    layer = WeightNormDense(RE2Config(weight_normalization=weight_normalization), 4)
    inputs = jax.random.normal(jax.random.key(0), (5, 3))
    params = random_parameters(layer, inputs)
    plain = fold_weight_norm({"layer": params})["layer"]
    assert set(plain) == {"kernel", "bias"}
    outputs = WeightNormDense(RE2Config(weight_normalization="none"), 4).apply({"params": plain}, inputs)
    np.testing.assert_allclose(outputs, layer.apply({"params": params}, inputs), rtol=1e-6)


def test_joint_kernels_and_gradients_match_those_of_each_layer():
    shapes = [(3, 5, 7), (4, 7), (6, 2), (1, 1)]
    generator = np.random.default_rng(0)
    directions, mixed = ([generator.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(2))
    gains = [generator.standard_normal(shape[-1]).astype(np.float32) for shape in shapes]
    directions[1][:, 2] = 0  # its kernel is zero, too

    def of(form):
        def loss(directions, gains):
            kernels = list(form(directions, gains))
            return sum((kernel * own + kernel**2).sum() for kernel, own in zip(kernels, mixed, strict=True)), kernels

        (_, kernels), gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)(directions, gains)
        return kernels, gradients

    found, expected = of(core.kernels_of), of(functools.partial(map, kernel_of))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5), found, expected)
