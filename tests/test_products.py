"""The stated precision of matrix products is what compiled programs request, and what this device computes."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from small_records import LAYOUT, record

from benchmarks import ceiling
from benchmarks.accelerators.products import Product, products
from jaxmatch.errors import InputError
from jaxmatch.layers.core import PRECISIONS, matmul
from jaxmatch.models import build
from jaxmatch.products import products_of
from jaxmatch.reporting import record_schema
from jaxmatch.reporting.tables import make_table

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
        ("TF32_TF32_F32", ("TF32 or finer", "TF32", "TF32")),
        ("BF16_BF16_F32_X3", ("BF16_BF16_F32_X3 or finer", "BF16_BF16_F32_X3", "BF16_BF16_F32_X3")),
        ("F32_F32_F32", ("float32", "float32", "float32")),
    ],
)
def test_jax_default_precision_applies_only_to_float32_models(default, stated):
    with jax.default_matmul_precision(default):
        assert tuple(products_of("float32", device) for device in (CPU, TPU, H100)) == stated
        for precision in ("highest", "tensorfloat32", "bfloat16"):
            assert products_of(precision, H100) == STATED[precision][4]


def test_nvidia_tf32_override_changes_the_stated_products(monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert [products_of("float32", device) for device in (CPU, TPU, V100, H100)] == [
        "float32",
        "bfloat16",
        "float32",
        "TF32 or float32",
    ]
    assert products_of("highest", H100) == "float32"


def test_stated_products_equal_those_of_this_device():
    assert products_of("float32", jax.devices()[0]) == ceiling.default_products()


RE2, ESAN = {"name": "re2", "hidden_size": 4, "blocks": 1, "encoder_layers": 1}, {"name": "esan", "hidden_size": 4}
CSRAN = {
    "name": "csran",
    "hidden_size": 4,
    "stacked_layers": 1,
    "aggregation_layers": 1,
    "head_layers": 2,
    "head_size": 4,
    "factors": 2,
}
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


def test_a_compiled_cpu_program_keeps_the_requested_precision():
    square = jnp.ones((4, 4))
    for precision, requested in (("highest", "HIGHEST"), ("float32", "DEFAULT"), ("tensorfloat32", "HIGH")):
        compiled = jax.jit(lambda a, b, precision=precision: matmul(a, b, precision)).lower(square, square).compile()
        assert products(compiled.as_text()) == {Product(("f32", "f32"), jax.lax.Precision[requested])}


def test_cublas_kernels_are_parsed():
    call = (
        '(f32[4,4]{1,0}, s8[64]{0}) custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", '
        'backend_config={"gemm_backend_config":{"precision_config":{"operand_precision":'
    )
    text = f"""ENTRY %main {{
  %a = f32[4,4]{{1,0}} parameter(0)
  %b = bf16[4,4]{{1,0}} parameter(1)
  %c = {call}["HIGHEST","DEFAULT"],"algorithm":"ALG_UNSET"}}}}}}
  %d = {call.replace("%b", "%a")}["DEFAULT","DEFAULT"],"algorithm":"ALG_DOT_TF32_TF32_F32"}}}}}}
  %e = f32[4,4]{{1,0}} custom-call(%a, %b), custom_call_target="Sharding"
}}"""
    assert products(text) == {
        Product(("f32", "bf16"), jax.lax.Precision.DEFAULT),
        Product(("f32", "f32"), "TF32_TF32_F32"),
    }


def caption(*pairs):
    """Returns what a table states about the precision of records with these (precision, products)."""
    records = []
    for seed, (precision, used) in enumerate(pairs):
        one = record(seed=seed, **({"products": used} if used else {}))
        records.append(one | {"config": one["config"] | {"model": one["config"]["model"] | {"precision": precision}}})
    return [sentence for sentence in make_table(records, LAYOUT).caption if sentence.startswith("Precision")]


@pytest.mark.parametrize(
    ("pairs", "stated"),
    [
        ([("float32", "float32")], None),
        ([("float32", None), ("bfloat16", None)], None),  # records of an older version
        ([("float32", "TF32")], "float32 (TF32 products)"),
        ([("float32", "bfloat16"), ("float32", "float32")], "float32; float32 (bfloat16 products)"),
        ([("highest", "float32")], "highest (float32 products)"),
        ([("tensorfloat32", "TF32"), ("tensorfloat32", "float32")], "tensorfloat32; tensorfloat32 (float32 products)"),
        ([("bfloat16", "bfloat16"), ("float32", None)], "bfloat16; float32 (unknown products)"),
    ],
)
def test_a_caption_names_products_that_differ_from_the_precision(pairs, stated):
    assert caption(*pairs) == ([f"Precision: {stated}."] if stated else [])


def test_a_record_whose_products_are_not_a_text_is_an_error():
    with pytest.raises(InputError, match="field 'products' is not a text"):
        record_schema.check_record(record(products=["TF32"]))
