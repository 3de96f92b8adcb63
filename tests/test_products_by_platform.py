"""Products of matrices as they are traced for each platform."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmatch import models
from jaxmatch.layers.core import ALIGNMENT, matmul, sum_of_products, traced_for
from jaxmatch.training.step import flattening


def loss(left, right):
    return jnp.sin(matmul(left, right, "float32")).sum()


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
@pytest.mark.parametrize("shapes", [((2, 5, 9), (9, 6)), ((2, 5, 9), (2, 9, 6)), ((4, 8), (8, 16)), ((4, 9), (9, 1))])
def test_the_platform_does_not_change_results_or_gradients(shapes, platform):
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = matmul(*arrays, "float32"), *jax.grad(loss, (0, 1))(*arrays)
    with traced_for(platform):
        found = matmul(*arrays, "float32"), *jax.grad(loss, (0, 1))(*arrays)
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(each, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_product_of_a_gradient_has_aligned_rows(dtype):
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape in ((40, 150), (150, 75))]

    def rows_of_products():
        text = jax.jit(jax.grad(loss, (0, 1))).lower(*arrays).as_text()
        of_products = re.findall(r"dot_general.* : \((.*)\) -> (.*)", text)
        assert len(of_products) == 3  # forward, and the gradient of each factor
        shapes = [shape for line in of_products for part in line for shape in re.findall(r"tensor<([\dx]+)x", part)]
        return {int(size) for shape in shapes for size in shape.split("x")} - {40}

    least = ALIGNMENT // jnp.dtype(dtype).itemsize
    assert rows_of_products() == {150, 75}
    with traced_for("gpu"):
        assert {size % least for size in rows_of_products()} == {0}


def products_of_a_model(platform):
    """Returns (left shape, contracted axis of it, result shape) of each product of RE2 with 5 rows of 7 tokens."""
    settings = {"name": "re2", "blocks": 2, "encoder_layers": 1, "hidden_size": 10}
    flat = flattening(models.build(settings, outputs=3), 6, platform=platform)
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in (((flat.count,), "float32"), ((9, 6), "float32"))]
    ids, sentences = (jax.ShapeDtypeStruct((5, 7), dtype) for dtype in ("int32", "int8"))
    with traced_for(platform):
        text = jax.jit(flat.match).lower(shapes[0], {"ids": ids}, sentences, shapes[1]).as_text()
    products = re.findall(
        r"contracting_dims = \[(\d)\] x .* : \(tensor<([^>]*)xf32>, .*\) -> tensor<([^>]*)xf32>", text
    )
    assert len(products) > 10
    return [
        (tuple(map(int, left.split("x"))), int(axis), tuple(map(int, found.split("x"))))
        for axis, left, found in products
    ]


def test_the_columns_of_padding_are_cut_off_once_after_the_sum_of_the_parts_products():
    shapes = [(5, 7, 9), (5, 7, 6), (9, 10), (6, 10)]
    arrays = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]

    def summed(first, second, *rows):
        with traced_for("gpu"):
            return sum_of_products((first, second), rows, "float32")

    text = jax.jit(summed).lower(*arrays).as_text()
    assert re.findall(r"stablehlo.slice .* -> tensor<(.*)xf32>", text) == ["35x10"]


@pytest.mark.parametrize(("platform", "aligned"), [("gpu", True), ("cpu", False), ("tpu", False)])
def test_a_model_has_aligned_products_only_on_gpus(platform, aligned):
    products = products_of_a_model(platform)
    assert all(left[axis] % 4 == 0 and found[-1] % 4 == 0 for left, axis, found in products) == aligned


@pytest.mark.parametrize(("platform", "kept"), [("gpu", False), ("cpu", False), ("tpu", True)])
def test_products_of_tokens_keep_batch_and_length_only_on_tpus(platform, kept):
    results = [found for *_, found in products_of_a_model(platform)]
    assert any(found[0] == 5 * 7 for found in results) != kept
