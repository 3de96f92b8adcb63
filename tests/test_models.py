"""Properties that every model has, whatever its weights are."""

import functools

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import compiled, equations, random_parameters

from jaxmatch.inference.matcher import InferenceModel
from jaxmatch.models import build, count_parameters

FEATURES = {"known_characters": 12, "character_features": 4, "tags": True, "known_tags": 6, "tag_features": 3}
FEATURES |= {"exact_match": True}
STACK = {"hidden_size": 3, "highway_layers": 1, "factors": 2, "head_size": 5}
ESAN = {"name": "esan", "hidden_size": 5}
CSRAN = {"name": "csran", "stacked_layers": 2, "head_layers": 2, **STACK}
CAFE = {"name": "cafe", **STACK}
DIIN = {"name": "diin", "grid_length": 7, "highway_layers": 1, "dense_blocks": 2, "block_layers": 2, "growth_rate": 2}
BIMPM = {"name": "bimpm", "hidden_size": 4, "perspectives": 2, "head_size": 5}
RE2 = {"name": "re2", "hidden_size": 6, "blocks": 2, "encoder_layers": 2}
DECATT = {"name": "decatt", "hidden_size": 5, "intra_attention": True}
ESIM = {"name": "esim", "hidden_size": 3}
SIAMESE = {"name": "siamese", "hidden_size": 3, "head_size": 5}
TRANSFORMER = {"name": "transformer", "hidden_size": 8, "heads": 2, "encoder_layers": 1, "feed_forward_size": 6}
# Together, these settings use every input and every part of the models.
WHOLE = [
    ESAN | FEATURES | {"characters": "cnn", "alignment_layers": 2, "encoder_layers": 2},
    CSRAN | FEATURES | {"characters": "bilstm", "aggregation_layers": 2, "prediction": "full", "head": "highway"},
    CSRAN | {"refinement": False, "co_stack": False, "aligned_layers": "last", "highway_layers": 0, "head_layers": 1},
    CAFE | FEATURES | {"characters": "bilstm", "bidirectional": True, "prediction": "symmetric"},
    RE2 | FEATURES | {"characters": "cnn"},
    BIMPM | FEATURES | {"characters": "bilstm"},
    DECATT | FEATURES | {"characters": "cnn"},
    ESIM | FEATURES | {"characters": "bilstm"},
    SIAMESE | FEATURES | {"characters": "cnn"},
    TRANSFORMER | FEATURES | {"characters": "cnn"},
    DIIN | FEATURES | {"characters": "cnn"},
]
SMALL = {
    settings["name"]: settings for settings in (RE2, ESAN, CSRAN, CAFE, DIIN, BIMPM, DECATT, ESIM, SIAMESE, TRANSFORMER)
}
ALL = pytest.mark.parametrize("settings", SMALL.values(), ids=lambda settings: settings["name"])
RANDOM = np.random.default_rng(0)
VECTORS = jnp.asarray(0.5 * RANDOM.normal(size=(20, 6)), jnp.float32)
A = np.array([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [11, 0, 0, 0, 0]], np.int32)
B = np.array([[12, 13, 14, 0, 0, 0], [2, 3, 4, 5, 6, 7], [18, 19, 0, 0, 0, 0]], np.int32)


def side(ids):
    """Returns a sentence with every feature. Features are functions of a word's id, so that they move with the word."""
    ids = np.asarray(ids, np.int32)
    characters = (ids[..., None] * np.arange(1, 17)) % 11 + 1
    lengths = ids % 7 + 1
    return {
        "ids": ids,
        "characters": np.where((np.arange(16) < lengths[..., None]) & (ids > 0)[..., None], characters, 0).astype(
            np.int32
        ),
        "tags": np.where(ids > 0, ids % 5 + 1, 0).astype(np.int32),
        "exact_match": np.where(ids > 0, ids % 2, 0).astype(np.int8),
    }


def loss(module, params, a, b, key, rate):
    outputs = module.apply({"params": params}, a, b, VECTORS, dropout_rate=rate, rngs={"dropout": key})
    return -jax.nn.log_softmax(outputs)[:, 0].mean()


@functools.cache
def _logits(module):
    return compiled(lambda params, a, b: module.apply({"params": params}, a, b, VECTORS))


def logits(module, params, a=A, b=B):
    return np.asarray(_logits(module)(params, side(a), side(b)))


def start(settings, seed=0):
    return _start(tuple(settings.items()), seed)


@functools.cache
def _start(items, seed):
    module = build(dict(items), outputs=3)
    return module, random_parameters(module, side(A), side(B), VECTORS, seed=seed)


def small(name):
    """Returns the small model of this name, and parameters for it."""
    return start(SMALL[name])


def shapes(settings, dimensions=6, outputs=3):
    """Returns the shapes of the parameters of a model of vectors of some dimensions."""
    table = jax.ShapeDtypeStruct((20, dimensions), jnp.float32)
    return jax.eval_shape(build(settings, outputs=outputs).init, jax.random.key(0), side(A), side(B), table)["params"]


@pytest.mark.parametrize(
    ("settings", "outputs", "count"),
    [
        ({"name": "re2", "blocks": 3}, 3, 2_774_559),  # SNLI; the paper prints 2.8M
        ({"name": "esan", "characters": "cnn"}, 2, 3_856_712),  # Quora; Table 5 prints 3.9M
        ({"name": "bimpm", "characters": "bilstm"}, 3, 678_163),
        ({"name": "diin", "characters": "cnn", "tags": True, "exact_match": True}, 3, 4_376_876),  # RE2's Table 1: 4.4M
        ({"name": "decatt"}, 3, 381_803),  # Table 1: 382K
        ({"name": "decatt", "intra_attention": True}, 3, 582_215),  # 582K
        ({"name": "esim"}, 3, 4_326_303),  # RE2's Table 1: 4.3M
    ],
)
def test_numbers_of_parameters_in_the_papers_settings(settings, outputs, count):
    """They were computed by hand from the equations, layer by layer."""
    assert count_parameters(shapes(settings, 300, outputs)) == count


WITH_LSTMS = {"esan": 1, "csran": 3, "cafe": 1, "bimpm": 2, "esim": 2, "siamese": 1}


@pytest.mark.parametrize("name", WITH_LSTMS)
def test_forget_bias_initializes_the_forget_gates_of_every_lstm(name):
    module = build(SMALL[name] | {"forget_bias": 1.5}, outputs=3)

    @compiled
    def initial_biases():
        flat = flax.traverse_util.flatten_dict(module.init(jax.random.key(0), side(A), side(B), VECTORS)["params"])
        return [flat[*path[:-1], "bias"] for path in flat if path[-1] == "recurrent_kernel"]

    biases = initial_biases()
    assert len(biases) == WITH_LSTMS[name]
    for bias in biases:
        np.testing.assert_array_equal(bias, np.broadcast_to([[0.0], [1.5], [0.0], [0.0]], bias.shape))


@pytest.mark.parametrize(
    "settings",
    [
        *WHOLE,
        ESAN | {"augmentation": "simple", "precision": "bfloat16"},
        CSRAN,
        CAFE,
        RE2 | FEATURES | {"characters": "bilstm", "parallel_blocks": True},
        RE2 | {"alignment": "identity", "fusion": "simple", "connection": "vanilla_running_sum", "hidden_size": 7},
        RE2 | {"prediction": "symmetric", "encoder_input": False, "kernel_size": (3, 5), "connection": "none"},
        RE2 | {"parallel_blocks": True, "weight_normalization": "none"},
        RE2 | {"precision": "bfloat16", "weight_normalization": "unit"},
    ],
    ids=lambda settings: " ".join(str(value) for value in settings.values()),
)
def test_padding_never_changes_a_logit(settings):
    module, params = start(settings)
    expected = logits(module, params)
    assert np.ptp(expected) > 1e-2
    padded = logits(module, params, np.pad(A, ((0, 0), (2, 4))), np.pad(B, ((0, 0), (0, 1))))
    tolerance = 5e-2 if settings.get("precision") == "bfloat16" else 1e-4
    np.testing.assert_allclose(padded, expected, atol=tolerance * np.abs(expected).max())


@ALL
def test_other_pairs_in_a_batch_never_change_a_logit(settings):
    module, params = small(settings["name"])
    np.testing.assert_allclose(logits(module, params, A[1:2, :3], B[1:2]), logits(module, params)[1:2], atol=1e-3)


@pytest.mark.parametrize("settings", WHOLE, ids=lambda settings: " ".join(str(value) for value in settings.values()))
def test_gradients_are_finite_for_any_sentence_and_nonzero_for_every_parameter(settings):
    module, params = start(settings)
    gradient = compiled(jax.value_and_grad(functools.partial(loss, module)))
    traced = gradient.trace(params, side(A), side(B), jax.random.key(0), 0.2)
    program = traced.lower().compile()
    names = {equation.primitive.name for equation in equations(traced.jaxpr.jaxpr)}
    assert "dot_general" in names and not any("conv_general" in name for name in names)
    rows = [  # both sentences empty, one sentence empty, one token in each
        ((0, 0, 3), (0, 4, 4)),
        ((3, 0, 0), (0, 0, 4)),
    ]
    for first, second in rows:
        a, b = np.zeros_like(A), np.zeros_like(B)
        a[:, 0], b[:, 0] = first, second
        value, leaves = program(params, side(a), side(b), jax.random.key(0), 0.2)
        assert np.isfinite(value)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(leaves))
    params = jax.tree.map(lambda leaf: leaf / 2, params)  # otherwise a saturated softmax passes no gradient
    _, leaves = program(params, side(A), side(B), jax.random.key(0), 0.0)
    for path, leaf in jax.tree_util.tree_leaves_with_path(leaves):
        assert np.isfinite(leaf).all() and np.any(leaf != 0), path


@ALL
def test_dropout_rate_zero_equals_evaluation_and_the_key_determines_the_mask(settings):
    module, params = small(settings["name"])
    run = compiled(
        lambda key, rate: module.apply(
            {"params": params}, side(A), side(B), VECTORS, dropout_rate=rate, rngs={"dropout": key}
        )
    )
    first, second = jax.random.key(1), jax.random.key(2)
    np.testing.assert_allclose(run(first, 0.0), logits(module, params), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(run(first, 0.3), run(first, 0.3))
    assert np.abs(run(first, 0.3) - run(second, 0.3)).max() > 1e-3
    assert np.abs(run(first, 0.3) - run(first, 0.0)).max() > 1e-3


def test_word_vectors_get_no_gradient():
    module, params = small("re2")
    gradient = compiled(jax.grad(lambda vectors: module.apply({"params": params}, side(A), side(B), vectors).sum()))(
        VECTORS
    )
    np.testing.assert_array_equal(gradient, np.zeros_like(VECTORS))


@ALL
def test_inference_model_logits_equal_those_of_the_model(settings):
    module, params = small(settings["name"])
    bound = InferenceModel(module, params, np.asarray(VECTORS))
    expected = logits(module, params)
    np.testing.assert_allclose(bound.logits(A, B), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(bound.logits(np.pad(A, ((0, 0), (0, 9))), B), expected, rtol=1e-4, atol=1e-4)
