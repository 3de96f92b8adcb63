"""The stated precision of matrix products is what compiled programs request, and what this device computes."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_re2
from small_records import LAYOUT, record

from benchmarks import ceiling
from benchmarks.accelerators.products import products
from jaxmatch import models
from jaxmatch.config.models import RE2Config
from jaxmatch.devices import products_of
from jaxmatch.layers.attention import DotProductAttention, attention_weights, of_other_sentence
from jaxmatch.layers.core import (
    ALIGNMENT,
    PRECISIONS,
    Dropout,
    gelu,
    matmul,
    matmul_features,
    sum_of_products,
    traced_for,
)
from jaxmatch.models import build
from jaxmatch.models.csran import co_stack_affinity
from jaxmatch.models.diin import convolve_grid
from jaxmatch.models.re2 import Alignment, Connection, convolve
from jaxmatch.reporting.table import make_table
from jaxmatch.training.step import flattening

CPU, TPU = (SimpleNamespace(platform=name) for name in ("cpu", "tpu"))
V100, A100, H100, MI300 = (
    SimpleNamespace(platform="gpu", compute_capability=name) for name in ("7.0", "8.0", "9.0", "gfx942")
)
STATED = {
    "highest": ("float32", "float32", "float32", "float32", "float32", "float32"),
    "float32": ("float32", "bfloat16", "float32", "TF32", "TF32", "device-dependent"),
    "tensorfloat32": ("float32", "bfloat16 x 3", "float32", "TF32", "TF32", "device-dependent"),
    "bfloat16": ("bfloat16",) * 6,
}


@pytest.fixture(autouse=True)
def default_jax_settings(monkeypatch):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    with jax.default_matmul_precision(None):
        yield


@pytest.mark.parametrize("precision", PRECISIONS)
def test_product_dtype_depends_on_precision_and_device(precision):
    assert tuple(products_of(precision, device) for device in (CPU, TPU, V100, A100, H100, MI300)) == STATED[precision]


@pytest.mark.parametrize(
    ("default", "stated"),
    [
        ("default", ("float32", "bfloat16", "TF32")),
        ("bfloat16", ("float32", "bfloat16", "TF32")),
        ("tensorfloat32", ("float32", "bfloat16 x 3", "TF32")),
        ("high", ("float32", "bfloat16 x 3", "TF32")),
        ("highest", ("float32", "float32", "float32")),
        ("float32", ("float32", "float32", "float32")),
        ("BF16_BF16_F32_X3", ("BF16_BF16_F32_X3",) * 3),
    ],
)
def test_jax_default_precision_applies_only_to_float32_models(default, stated):
    with jax.default_matmul_precision(default):
        assert tuple(products_of("float32", device) for device in (CPU, TPU, H100)) == stated
        for precision in ("highest", "tensorfloat32", "bfloat16"):
            assert products_of(precision, H100) == STATED[precision][4]


def test_stated_products_equal_those_of_this_device():
    assert products_of("float32", jax.devices()[0]) == ceiling.default_products()


RE2, ESAN = {"name": "re2", "hidden_size": 4, "blocks": 1, "encoder_layers": 1}, {"name": "esan", "hidden_size": 4}
CSRAN = {"name": "csran", "hidden_size": 4, "stacked_layers": 1, "head_size": 4, "factors": 2}
CASES = [(RE2, precision) for precision in PRECISIONS] + [(ESAN, "bfloat16"), (CSRAN, "highest"), (CSRAN, "bfloat16")]


@pytest.mark.parametrize(
    ("settings", "precision"), CASES, ids=[f"{settings['name']} {precision}" for settings, precision in CASES]
)
def test_every_product_of_a_training_step_uses_the_stated_dtype(settings, precision):
    module = build(settings | {"precision": precision}, outputs=3)
    ids, vectors = {"ids": jnp.ones((2, 3), jnp.int32)}, jnp.ones((5, 6))
    params = jax.eval_shape(module.init, jax.random.key(0), ids, ids, vectors)
    gradient = jax.jit(jax.grad(lambda params: module.apply(params, ids, ids, vectors).sum()))
    found = products(gradient.lower(params).as_text("hlo"))
    others = {"highest"} if settings is CSRAN else set()  # factorization machines are always in float32
    others |= {"float32"} if precision == "bfloat16" else set()  # logits are never in bfloat16
    for device in (CPU, TPU, H100):
        assert {product.uses(device) for product in found} == {products_of(one, device) for one in {precision, *others}}


def bfloat16_values(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.bfloat16)


def of_parts():
    parts, kernel = [bfloat16_values(size, 40, size) for size in (3, 5, 1)], bfloat16_values(0, 9, 30)
    exact = np.concatenate(parts, axis=-1).astype(np.float64) @ np.asarray(kernel, np.float64)
    return matmul_features(tuple(parts), kernel.astype(jnp.float32), "bfloat16"), exact


def of_a_convolution():
    sequence, kernel = bfloat16_values(0, 1, 30, 4), bfloat16_values(1, 3, 4, 20)
    padded = np.pad(np.asarray(sequence[0], np.float64), ((1, 1), (0, 0)))
    exact = [np.einsum("wi,wio->o", padded[place : place + 3], np.asarray(kernel, np.float64)) for place in range(30)]
    found = convolve((sequence,), kernel.astype(jnp.float32), jnp.ones((1, 30), jnp.int8), "bfloat16")
    return found[0], np.stack(exact)


def of_a_grid():
    grid, kernel = bfloat16_values(0, 1, 6, 6, 2), bfloat16_values(1, 3, 3, 2, 20)
    padded = np.pad(np.asarray(grid[0], np.float64), ((1, 1), (1, 1), (0, 0)))
    exact = [
        [np.einsum("ywi,ywio->o", padded[y : y + 3, x : x + 3], np.asarray(kernel, np.float64)) for x in range(6)]
        for y in range(6)
    ]
    return convolve_grid(grid, kernel.astype(jnp.float32), "bfloat16")[0], np.array(exact)


def of_dropout():
    inputs = bfloat16_values(0, 400)
    found = Dropout().apply({}, inputs, 0.1, rngs={"dropout": jax.random.key(0)})
    return found, np.where(found == 0, 0, np.asarray(inputs, np.float64) / (1 - round(0.1 * 65536) / 65536))


def of_gelu():
    inputs = bfloat16_values(0, 400)
    return gelu(inputs), reference_re2.gelu(np.asarray(inputs, np.float64))


def of_a_residual():
    one, other = bfloat16_values(0, 400), bfloat16_values(1, 400)
    (found,) = Connection(RE2Config(connection="vanilla")).apply({}, one, (one,), [one, other])
    return found, (np.asarray(one, np.float64) + np.asarray(other, np.float64)) / np.sqrt(2)


@pytest.mark.parametrize(
    "computed",
    [of_parts, of_a_convolution, of_a_grid, of_dropout, of_gelu, of_a_residual],
    ids=lambda each: each.__name__,
)
def test_bfloat16_results_are_rounded_once(computed):
    found, exact = computed()
    assert found.dtype == jnp.bfloat16
    error, least = (np.abs(np.asarray(each, np.float64) - exact) for each in (found, exact.astype(jnp.bfloat16)))
    np.testing.assert_array_less(error, least + 1e-5)


@pytest.mark.parametrize("layer", ["dot product", "score_scale", "co-stack"])
def test_attention_scores_of_a_bfloat16_model_are_not_rounded(layer):
    # The scores are large and differ by little.
    sequence = 3 * bfloat16_values(0, 1, 1, 16) + bfloat16_values(1, 1, 8, 16) / 8
    sentences, score_scale = jnp.array([[1] * 3 + [2] * 5], jnp.int8), jnp.float32(0.3 if layer == "score_scale" else 1)
    if layer == "dot product":
        module, variables = DotProductAttention("bfloat16"), {}
        _, found = module.apply(variables, sequence, (sequence,), sentences, mutable="intermediates")
    elif layer == "score_scale":
        module = Alignment(RE2Config(alignment="identity", precision="bfloat16"))
        variables = {"params": {"score_scale": score_scale}}
        _, found = module.apply(variables, (sequence,), sentences, None, mutable="intermediates")
    else:
        scores = co_stack_affinity((sequence,), "bfloat16")
        found = attention_weights(scores, of_other_sentence(sentences), sequence.dtype)
    values, other = np.asarray(sequence[0], np.float64), np.asarray(sentences[0, :, None] != sentences)
    scores = float(score_scale) * values @ values.T
    exact = reference_re2.softmax(np.where(other, scores, -np.inf), axis=1)
    assert np.abs(scores).min() > 30 and np.sort(exact)[:, -2].min() > 0.01
    np.testing.assert_allclose(np.asarray(jax.tree.leaves(found)[0][0], np.float64), exact, rtol=2**-8)


def caption(*pairs):
    """Returns what a table states about the precision of records with these (precision, products)."""
    records = []
    for seed, (precision, used) in enumerate(pairs):
        one = record(seed=seed, **({"products": used} if used else {}))
        records.append(one | {"config": one["config"] | {"model": one["config"]["model"] | {"precision": precision}}})
    return [sentence for sentence in make_table(records, LAYOUT).details if sentence.startswith("Precision")]


@pytest.mark.parametrize(
    ("pairs", "stated"),
    [
        ([("float32", "float32")], None),
        ([("float32", None), ("bfloat16", None)], None),  # records of an older version
        ([("float32", "bfloat16"), ("float32", "float32")], "float32; float32 (bfloat16 products)"),
        ([("bfloat16", "bfloat16"), ("float32", None)], "bfloat16; float32 (unknown products)"),
    ],
)
def test_a_caption_names_products_that_differ_from_the_precision(pairs, stated):
    assert caption(*pairs) == ([f"Precision: {stated}."] if stated else [])


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


@pytest.mark.parametrize(("platform", "aligned", "kept"), [("gpu", 1, 0), ("cpu", 0, 0), ("tpu", 0, 1)])
def test_products_of_a_model_are_aligned_on_gpus_and_keep_batch_and_length_on_tpus(platform, aligned, kept):
    products = products_of_a_model(platform)
    assert all(left[axis] % 4 == 0 and found[-1] % 4 == 0 for left, axis, found in products) == aligned
    assert any(found[0] == 5 * 7 for *_, found in products) != kept
