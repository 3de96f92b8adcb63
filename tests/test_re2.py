"""RE2: its layers against their equations, and the whole model, in addition to the properties of all models.

A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding).
"""

import dataclasses
import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_models import RE2, VECTORS, A, B, logits, loss, shapes, side, start

from jaxmatch.config.models import RE2Config
from jaxmatch.errors import InputError
from jaxmatch.inference.matcher import InferenceModel, padded_size
from jaxmatch.layers import core
from jaxmatch.layers.core import Dropout
from jaxmatch.models import build
from jaxmatch.models.pair_model import pair_rows
from jaxmatch.models.re2 import Alignment, Connection, FullFusion, SimpleFusion

SMALL = RE2 | {"hidden_size": 5}


@pytest.fixture(scope="module")
def small():
    return start(SMALL)


def test_every_layer_placement_puts_dropout_before_each_layer():
    """This is the placement of the paper; the placement of the released code is tested below."""
    module = build({"blocks": 2, "encoder_layers": 2, "hidden_size": 4, "dropout_placement": "every_layer"}, outputs=3)
    dropped = []

    def record(next_method, arguments, keywords, context):
        if isinstance(context.module, Dropout) and context.method_name == "__call__":
            dropped.append(sum(part.shape[-1] for part in jax.tree.leaves(arguments[0])))
        return next_method(*arguments, **keywords)

    with nn.intercept_methods(record):
        keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
        jax.eval_shape(module.init, keys, side(A), side(B), jax.ShapeDtypeStruct((20, 5), jnp.float32), 0.5)
    # Widths of the inputs of: both convolutions, alignment, three networks of the fusion, and its last network.
    first, second = [5, 4, 9, 18, 18, 18, 12], [9, 4, 13, 26, 26, 26, 12]
    assert dropped == [*first, *second, 16, 4]  # and two layers of the prediction


@pytest.mark.parametrize(
    ("alignment", "fusion"), [("linear", "full"), ("identity", "full"), ("linear", "simple"), ("identity", "simple")]
)
def test_dropout_placement_equals_the_released_code(alignment, fusion, monkeypatch):
    hidden, dimensions, blocks, layers = 5, 6, 2, 3
    changes = {"blocks": blocks, "encoder_layers": layers, "alignment": alignment, "fusion": fusion}
    module = build(SMALL | changes, outputs=3)
    params = shapes(SMALL | changes)
    drawn = []
    levels = core.random_levels
    monkeypatch.setattr(core, "random_levels", lambda key, shape: drawn.append(math.prod(shape)) or levels(key, shape))
    jax.eval_shape(lambda params: loss(module, params, side(A), side(B), jax.random.key(0), 0.2), params)
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
    module, params = start(SMALL | {"parallel_blocks": True})
    assert params["blocks_1"]["encoder"]["convolution_0"]["direction"].shape == (3, 6, 5)  # only the embeddings
    single = build(SMALL | {"blocks": 1}, outputs=3)
    # One token a sentence: the pooled vector is the block's output, so that the sum can be seen.
    a, b = A[:, :1], B[:, :1]

    @functools.partial(jax.jit, static_argnums=0)
    def pooled(module, params):
        return module.apply({"params": params}, *pair_rows(side(a), side(b)), VECTORS, method="sentence_vectors")

    parts = [pooled(single, params | {"blocks_0": params[name]}) for name in ("blocks_0", "blocks_1")]
    for which in range(2):
        np.testing.assert_allclose(pooled(module, params)[which], parts[0][which] + parts[1][which], atol=1e-5)


def test_without_encoder_input_alignment_sees_contextual_features_only():
    module, params = start(SMALL | {"encoder_input": False})
    assert params["blocks_1"]["alignment"]["projection"]["direction"].shape == (5, 5)
    assert params["blocks_1"]["fusion"]["product"]["direction"].shape == (10, 5)
    assert params["blocks_1"]["encoder"]["convolution_0"]["direction"].shape == (3, 11, 5)
    assert np.isfinite(logits(module, params)).all()


def test_bfloat16_is_close_with_float32_logits_and_parameters(small):
    module, params = small
    rounded = module.clone(config=dataclasses.replace(module.config, precision="bfloat16"))
    ours, expected = logits(rounded, params), logits(module, params)
    assert ours.dtype == np.float32
    assert 0 < np.abs(ours - expected).max() < 0.05 * np.abs(expected).max()
    assert (ours != ours.astype(jnp.bfloat16).astype(np.float32)).all()  # differences must not become ties
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(shapes(SMALL | {"precision": "bfloat16"})))


class TestInferenceModel:
    @pytest.mark.parametrize(
        ("a", "b", "error", "message"),
        [
            (A, B[:2], ValueError, "broadcast"),
            (A, B.astype(np.float32), TypeError, "Cannot cast"),
            (A + 20, B, InputError, "the ids are from 20 to 31; give ids from 0 to 19"),
            (A, -B, InputError, "the ids are from -19"),
        ],
    )
    def test_invalid_ids_are_refused(self, small, a, b, error, message):
        with pytest.raises(error, match=message):
            InferenceModel(*small, VECTORS).logits(a, b)

    def test_padded_sizes_are_few_and_cover_all_lengths(self):
        lengths = [padded_size(extent, steps=4) for extent in range(1, 130)]
        assert all(have >= need for need, have in enumerate(lengths, 1)) and lengths == sorted(lengths)
        assert all(have <= max(8, 1.26 * need + 3) for need, have in enumerate(lengths, 1)) and len(set(lengths)) <= 16
        assert [padded_size(extent) for extent in (0, 1, 8, 9, 16, 17, 33)] == [8, 8, 8, 16, 16, 32, 64]


def test_alignment_without_score_scale_equals_score_scale_one():
    sequence, sentences = (
        np.random.default_rng(0).normal(size=(1, 4, 3)).astype(np.float32),
        np.array([[1, 1, 2, 2]], np.int8),
    )
    plain = Alignment(RE2Config(alignment="identity", hidden_size=4, score_scale="none"))
    aligned, variables = plain.init_with_output(jax.random.key(0), (sequence,), sentences, None)
    assert not variables
    scaled = Alignment(RE2Config(alignment="identity", hidden_size=4))
    by_one = scaled.apply({"params": {"score_scale": np.float32(1)}}, (sequence,), sentences, None)
    np.testing.assert_array_equal(aligned[0], by_one[0])
    halved = scaled.apply({"params": {"score_scale": np.float32(0.5)}}, (sequence,), sentences, None)
    assert np.abs(np.asarray(halved[0]) - np.asarray(aligned[0])).max() > 1e-2


@pytest.mark.parametrize("kind", [FullFusion, SimpleFusion])
def test_dropout_before_every_layer_changes_outputs_only_at_positive_rates(kind):
    placed = kind(RE2Config(hidden_size=5, dropout_placement="every_layer"))
    own, aligned = (jax.random.normal(jax.random.key(seed), (2, 3, 4)) for seed in (0, 1))
    arguments = (own[..., :1], own[..., 1:]), (aligned[..., :1], aligned[..., 1:])
    fused, variables = placed.init_with_output(jax.random.key(2), *arguments, None)
    nothing, half = (
        placed.apply(variables, *arguments, rate, rngs={"dropout": jax.random.key(3)}) for rate in (0.0, 0.5)
    )
    np.testing.assert_allclose(nothing, fused, atol=1e-6)
    assert not np.allclose(half, fused, atol=1e-2)


def test_the_connection_of_the_ablation_is_equation_1_without_the_embeddings():
    embedded, *outputs = (jnp.full((1, 1, size), value) for size, value in ((3, 9.0), (2, 1.0), (2, 2.0), (2, 4.0)))

    def connected(kind, count):
        connection = Connection(RE2Config(hidden_size=2, connection=kind))
        return np.concatenate(connection.apply({}, embedded, (outputs[0], embedded), outputs[:count]), axis=-1)[0, 0]

    for count, expected in ((1, 1), (2, 3 / np.sqrt(2)), (3, 6 / np.sqrt(2))):
        np.testing.assert_allclose(connected("vanilla", count), [expected] * 2, rtol=1e-6)
        np.testing.assert_allclose(connected("augmented", count), [expected] * 2 + [9] * 3, rtol=1e-6)
