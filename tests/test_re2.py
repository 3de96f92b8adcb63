"""The whole RE2 model: properties that hold for any weights, in addition to those of all models (test_models.py)."""

import dataclasses
import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import compiled, equations, random_parameters
from test_models import RE2, A, B

from jaxmatch.errors import InputError
from jaxmatch.inference.inference_model import InferenceModel, padded_size
from jaxmatch.layers import core
from jaxmatch.layers.core import Dropout
from jaxmatch.models import build, count_parameters
from jaxmatch.models.pair_model import pair_rows

VECTORS = jax.random.normal(jax.random.key(9), (20, 10))


def sentences(a=A, b=B):
    return {"ids": jnp.asarray(a)}, {"ids": jnp.asarray(b)}


def parameters_of(module, seed=0):
    return random_parameters(module, *sentences(), VECTORS, seed=seed)


def logits(module, params, a=A, b=B):
    return np.asarray(_logits(module)(params, *sentences(a, b)))


@functools.cache
def _logits(module):
    return compiled(lambda params, a, b: module.apply({"params": params}, a, b, VECTORS))


@pytest.fixture(scope="module")
def small():
    module = build(RE2, outputs=3)
    return module, parameters_of(module)


def loss(module, params, a, b, key, rate):
    outputs = module.apply({"params": params}, *sentences(a, b), VECTORS, dropout_rate=rate, rngs={"dropout": key})
    return -jax.nn.log_softmax(outputs)[:, 0].mean()


def test_parameter_count_for_snli():
    module = build({"name": "re2", "blocks": 3, "encoder_layers": 2, "hidden_size": 150}, outputs=3)
    table = jax.ShapeDtypeStruct((10, 300), jnp.float32)
    params = jax.eval_shape(module.init, jax.random.key(0), *sentences(), table)["params"]
    assert count_parameters(params) == 2_774_559


def test_parameter_tree_has_the_expected_names(small):
    _, params = small
    assert set(params) == {"blocks_0", "blocks_1", "prediction"}
    assert set(params["blocks_1"]) == {"encoder", "alignment", "fusion"}
    assert set(params["blocks_1"]["encoder"]["convolution_1"]) == {"direction", "gain", "bias"}
    assert set(params["blocks_1"]["fusion"]) == {"concatenation", "difference", "product", "output"}


def test_every_layer_placement_puts_dropout_before_each_layer():
    """This is the placement of the paper; the placement of the released code is tested below."""
    module = build({"blocks": 2, "encoder_layers": 2, "hidden_size": 4, "dropout_placement": "every_layer"}, outputs=3)
    dropped = []

    def record(next_method, arguments, keywords, context):
        if isinstance(context.module, Dropout) and context.method_name == "in_parts":
            dropped.append(sum(part.shape[-1] for part in arguments[0]))
        return next_method(*arguments, **keywords)

    with nn.intercept_methods(record):
        keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
        jax.eval_shape(module.init, keys, *sentences(), jax.ShapeDtypeStruct((20, 5), jnp.float32), 0.5)
    # Widths of the inputs of: both convolutions, alignment, three networks of the fusion, and its last network.
    first, second = [5, 4, 9, 18, 18, 18, 12], [9, 4, 13, 26, 26, 26, 12]
    assert dropped == [*first, *second, 16, 4]  # and two layers of the prediction


def test_empty_sentence_gives_finite_logits_for_any_padding(small):
    module, params = small
    a, b = np.where([[1], [0], [0]], A, 0), np.where([[0], [0], [1]], B, 0)
    expected = logits(module, params, a, b)
    assert np.isfinite(expected).all()
    padded = logits(module, params, np.pad(a, ((0, 0), (0, 4))), np.pad(b, ((0, 0), (0, 1))))
    np.testing.assert_allclose(padded, expected, atol=1e-5 * np.abs(expected).max())


def test_swapping_sentences_swaps_the_prediction_inputs():
    """Eq. 6 contains v_1 and v_2 in order. |v_1 - v_2| and the product are symmetric; all layers below are shared."""
    module = build(RE2 | {"prediction": "symmetric"}, outputs=3)
    params = parameters_of(module)
    direction = params["prediction"]["hidden"]["direction"]
    swapped_rows = jnp.concatenate([direction[6:12], direction[:6], direction[12:]])
    hidden = params["prediction"]["hidden"] | {"direction": swapped_rows}
    swapped = params | {"prediction": params["prediction"] | {"hidden": hidden}}
    np.testing.assert_allclose(logits(module, swapped, B, A), logits(module, params), atol=1e-5)
    assert np.abs(logits(module, params, B, A) - logits(module, params)).max() > 1e-3


def test_vmapped_step_equals_single_steps_and_has_no_convolution(small):
    module, _ = small
    replicas = [parameters_of(module, seed) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *replicas)
    keys, rates = jax.random.split(jax.random.key(5)), jnp.array([0.2, 0.5])
    step = jax.vmap(jax.value_and_grad(lambda params, key, rate: loss(module, params, A, B, key, rate)))
    traced = compiled(step).trace(stacked, keys, rates)
    program = traced.lower().compile()
    losses, gradients = program(stacked, keys, rates)
    alone = compiled(jax.value_and_grad(lambda params, key, rate: loss(module, params, A, B, key, rate)))
    for row in range(2):
        own_loss, own_gradient = alone(replicas[row], keys[row], rates[row])
        np.testing.assert_allclose(losses[row], own_loss, rtol=1e-5)
        for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(own_gradient), strict=True):
            np.testing.assert_allclose(one[row], other, atol=1e-5)
    assert "convolution(" not in program.as_text()
    names = {equation.primitive.name for equation in equations(traced.jaxpr.jaxpr)}
    assert "dot_general" in names
    assert not any("conv_general" in name for name in names)


@pytest.mark.parametrize(
    ("alignment", "fusion"), [("linear", "full"), ("identity", "full"), ("linear", "simple"), ("identity", "simple")]
)
def test_dropout_placement_equals_the_released_code(alignment, fusion, monkeypatch):
    hidden, dimensions, blocks, layers = 6, 10, 2, 3
    changes = {"blocks": blocks, "encoder_layers": layers, "alignment": alignment, "fusion": fusion}
    module = build(RE2 | changes, outputs=3)
    params = jax.eval_shape(module.init, jax.random.key(0), *sentences(), VECTORS)["params"]
    drawn = []
    levels = core.random_levels
    monkeypatch.setattr(core, "random_levels", lambda key, shape: drawn.append(math.prod(shape)) or levels(key, shape))
    jax.eval_shape(lambda params: loss(module, params, A, B, jax.random.key(0), 0.2), params)
    sizes = [4 * hidden, hidden]  # both dense layers of the prediction
    tokens = A.shape[1] + B.shape[1]
    sizes.append(tokens * dimensions)  # the embedding
    for block in range(blocks):
        inputs = dimensions if block == 0 else hidden + dimensions
        sizes += [tokens * hidden] * layers  # before each convolution but the first, and after the last
        sizes += [tokens * (inputs + hidden)] * (alignment == "linear")  # before the projection
        sizes += [tokens * 3 * hidden] * (fusion == "full")  # before the last dense layer of the fusion
    assert sorted(drawn) == sorted(len(A) * size for size in sizes)


def test_parallel_blocks_sum_the_outputs_of_single_blocks():
    module = build(RE2 | {"parallel_blocks": True}, outputs=3)
    params = parameters_of(module)
    assert params["blocks_1"]["encoder"]["convolution_0"]["direction"].shape == (3, 10, 6)  # only the embeddings
    single = build(RE2 | {"blocks": 1}, outputs=3)
    # One token a sentence: the pooled vector is the block's output, so that the sum can be seen.
    a, b = A[:, :1], B[:, :1]

    @functools.partial(jax.jit, static_argnums=0)
    def pooled(module, params):
        return module.apply({"params": params}, *pair_rows(*sentences(a, b)), VECTORS, method="sentence_vectors")

    parts = [pooled(single, params | {"blocks_0": params[name]}) for name in ("blocks_0", "blocks_1")]
    for side in range(2):
        np.testing.assert_allclose(pooled(module, params)[side], parts[0][side] + parts[1][side], atol=1e-5)


def test_without_encoder_input_alignment_sees_contextual_features_only():
    module = build(RE2 | {"encoder_input": False}, outputs=3)
    params = parameters_of(module)
    assert params["blocks_1"]["alignment"]["projection"]["direction"].shape == (6, 6)
    assert params["blocks_1"]["fusion"]["product"]["direction"].shape == (12, 6)
    assert params["blocks_1"]["encoder"]["convolution_0"]["direction"].shape == (3, 16, 6)
    assert np.isfinite(logits(module, params)).all()


def test_bfloat16_is_close_with_float32_logits_and_parameters(small):
    module, params = small
    rounded = module.clone(config=dataclasses.replace(module.config, precision="bfloat16"))
    ours, expected = logits(rounded, params), logits(module, params)
    assert ours.dtype == np.float32
    assert 0 < np.abs(ours - expected).max() < 0.05 * np.abs(expected).max()
    assert (
        ours != ours.astype(jnp.bfloat16).astype(np.float32)
    ).all()  # logits that differ a little must not become ties
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(parameters_of(rounded)))


def test_regression_gives_one_number():
    module = build(RE2, outputs=1)
    assert logits(module, parameters_of(module)).shape == (3, 1)


class TestInferenceModel:
    def test_logits_equal_the_module_for_any_padding(self, small):
        module, params = small
        bound = InferenceModel(module, params, np.asarray(VECTORS))
        expected = logits(module, params)
        np.testing.assert_allclose(bound.logits(A, B), expected, atol=1e-5)
        np.testing.assert_allclose(bound.logits(np.pad(A, ((0, 0), (0, 9))), B), expected, atol=1e-5)
        np.testing.assert_allclose(bound.logits(A[1:], B[1:].astype(np.int64)), expected[1:], atol=1e-5)
        assert bound.logits(A[:0], B[:0]).shape == (0, 3)

    @pytest.mark.parametrize(
        ("a", "b", "message"),
        [
            (A, B[:2], "ids_a has 3 rows and ids_b has 2"),
            (A[0], B[0], "ids_a is int32 of shape"),
            (A, B.astype(np.float32), "ids_b is float32"),
            (A + 20, B, "ids_a holds ids from 20 to 31; give ids from 0 to 19"),
            (A, -B, "ids_b holds ids from -19"),
        ],
    )
    def test_invalid_ids_are_refused(self, small, a, b, message):
        with pytest.raises(InputError, match=message):
            InferenceModel(*small, VECTORS).logits(a, b)

    def test_padding_inside_a_sentence_gives_the_logits_of_the_module(self, small):
        module, params = small
        holed = A.copy()
        holed[:, 1] = 0
        np.testing.assert_allclose(
            InferenceModel(module, params, VECTORS).logits(holed, B), logits(module, params, holed), atol=1e-5
        )

    def test_padded_sizes_are_few_and_cover_all_lengths(self):
        lengths = [padded_size(extent, steps=4) for extent in range(1, 130)]
        assert all(have >= need for need, have in enumerate(lengths, 1)) and lengths == sorted(lengths)
        assert all(have <= max(8, 1.26 * need + 3) for need, have in enumerate(lengths, 1)) and len(set(lengths)) <= 16
        assert [padded_size(extent) for extent in (0, 1, 8, 9, 16, 17, 33)] == [8, 8, 8, 16, 16, 32, 64]
