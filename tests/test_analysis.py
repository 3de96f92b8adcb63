"""Occlusion masks the same features as the paper, and attention weights are those that the model uses."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_re2
import saved_model
from random_parameters import random_parameters

import jaxmatch
from jaxmatch.analysis import occlusion
from jaxmatch.analysis.attention import attention
from jaxmatch.data.pairs import Split
from jaxmatch.data.text import Preprocessing, Vocabulary
from jaxmatch.errors import InputError
from jaxmatch.inference.interop import re2_from_pytorch
from jaxmatch.inference.matcher import InferenceModel, Matcher, Prediction
from jaxmatch.layers import attention as attention_layer
from jaxmatch.models import build, cafe, decatt

PAIRS = [("a b c", "no d é"), ("e d c b a", "unseen c"), ("b", "a"), ("no no", "c d e"), ("é", "e b"), ("a e", "b")]
LABELS = ["neutral", "entailment", "neutral", "entailment", "neutral", "entailment"]  # no pair is a contradiction
SPLIT = Split(*zip(*PAIRS, strict=True), LABELS)

# The columns of each feature in the input of alignment and fusion: 4 of the residual, 5 of the embedding, 4 of the
# encoder.
COLUMNS = {
    (0, "embedding"): slice(0, 5),
    (0, "contextual"): slice(5, 9),
    **{(block, "residual"): slice(0, 4) for block in (1, 2)},
    **{(block, "embedding"): slice(4, 9) for block in (1, 2)},
    **{(block, "contextual"): slice(9, 13) for block in (1, 2)},
}


NETWORK = {"alignment": "linear", "fusion": "full", "connection": "aug", "prediction": "full", "blocks": 3}
NETWORK |= {"enc_layers": 1, "hidden_size": 4, "embedding_dim": 5, "num_classes": 3, "kernel_sizes": [3]}
NETWORK |= {"num_vocab": len(saved_model.WORDS)}


def matcher_around(model, config):
    """Returns a matcher with the words and labels of the saved model."""
    known = {"vocabulary": Vocabulary(saved_model.WORDS), "labels": saved_model.LABELS, "task": "classification"}
    return Matcher(model, **known, preprocessing=Preprocessing(**saved_model.PREPROCESSING), config=config)


@pytest.fixture(scope="module")
def network():
    """Random parameters in the released layout, and a matcher with these parameters."""
    state = reference_re2.random_state(NETWORK, np.random.default_rng(3))
    return state, matcher_around(re2_from_pytorch(state, NETWORK), {"model": {"name": "re2"}})


def ids_of(matcher, pairs):
    """Returns padded word ids <int32>[pairs, longest] of both sides."""

    def padded(rows):
        longest = max(map(len, rows))
        return np.array([row + [0] * (longest - len(row)) for row in rows], np.int32)

    return tuple(map(padded, matcher.encoded(pairs).sides))


@pytest.fixture(scope="module")
def expected(network):
    """The logits of the reference with all features (None), and without each of them."""
    state, matcher = network
    ids = ids_of(matcher, PAIRS)
    found = {None: reference_re2.logits(state, NETWORK, *ids)}
    for (block, feature), columns in COLUMNS.items():
        settings = {**NETWORK, "occluded": {block: columns}}
        found[block, feature] = reference_re2.logits(state, settings, *ids)
    return found


@pytest.fixture(scope="module")
def measured(network):
    return occlusion.occlusion(network[1], SPLIT)


def test_occluded_logits_equal_the_reference_implementation(network, expected):
    kept = np.ones((len(expected), 3, 3), bool)
    for number, place in enumerate(expected):
        if place:
            kept[number, place[0], occlusion.FEATURES.index(place[1])] = False
    ours = occlusion.occluded_logits(network[1], SPLIT, kept)
    for one, (place, reference) in zip(ours, expected.items(), strict=True):
        np.testing.assert_allclose(one, reference, rtol=0, atol=1e-5 * np.abs(reference).max(), err_msg=str(place))
    assert all(np.abs(one - ours[0]).max() > 1e-3 for one in ours[1:])  # each feature matters
    np.testing.assert_allclose(ours[0], network[1].logits(PAIRS), rtol=0, atol=1e-5)
    # Batches of one pair, which differ in length, change nothing.
    alone = occlusion.occluded_logits(network[1], SPLIT, kept[:2], batch_size=1)
    np.testing.assert_allclose(alone, ours[:2], rtol=0, atol=1e-5)


def test_accuracy_changes_are_counted_per_class(measured, expected):
    assert measured.labels == saved_model.LABELS
    assert measured.pairs.tolist() == [3, 3, 0]

    def right(logits, label):
        answers = [saved_model.LABELS[row.argmax()] for row in logits]
        return sum(answer == label for answer, known in zip(answers, LABELS, strict=True) if known == label) / 3

    for number, label in enumerate(saved_model.LABELS[:2]):
        assert measured.accuracy[number] == pytest.approx(right(expected[None], label))
        for (block, feature), logits in list(expected.items())[1:]:
            change = measured.change[block, occlusion.FEATURES.index(feature), number]
            assert change == pytest.approx(right(logits, label) - right(expected[None], label))
    assert np.nanmax(np.abs(measured.change)) > 0.3  # at least one change is large, so the comparison is not trivial


def test_absent_features_and_empty_classes_are_nan(measured):
    """The paper leaves "previous aligned features" of the first block blank. A class without pairs is blank, too."""
    assert np.isnan(measured.change[0, occlusion.FEATURES.index("residual")]).all()
    assert np.isnan(measured.change[:, :, 2]).all() and np.isnan(measured.accuracy[2])
    assert np.isfinite(np.delete(measured.change, 1, axis=1)[:, :, :2]).all()
    plain = measured.as_json()
    assert plain["change"][0][1] == [None, None, None] and plain["accuracy"][2] is None
    assert plain["features"] == ["embedding", "residual", "contextual"]


def test_mean_and_deviation_over_seeds_equal_hand_computed_values():
    pairs, nan = np.array([4, 2, 0]), math.nan
    one = occlusion.Occlusion(saved_model.LABELS, pairs, np.array([0.5, 1.0, nan]), np.array([[[0.1, -0.2, nan]] * 3]))
    two = occlusion.Occlusion(saved_model.LABELS, pairs, np.array([0.7, 0.0, nan]), np.array([[[0.3, -0.2, nan]] * 3]))
    found = occlusion.over_seeds([one, two])
    np.testing.assert_allclose(found.accuracy, [0.6, 0.5, nan])
    np.testing.assert_allclose(found.accuracy_deviation, [math.sqrt(0.02), math.sqrt(0.5), nan])
    np.testing.assert_allclose(found.change, [[[0.2, -0.2, nan]] * 3])
    np.testing.assert_allclose(found.change_deviation, [[[math.sqrt(0.02), 0, nan]] * 3], atol=1e-12)
    assert found.as_json()["accuracy_deviation"][2] is None
    alone = occlusion.over_seeds([one])
    assert alone.as_json().items() >= one.as_json().items() and np.isnan(alone.change_deviation).all()


TWO, THREE = ("embedding", "contextual"), ("residual", "embedding", "contextual")


@pytest.mark.parametrize(
    ("changed", "first", "later"),
    [
        ({"connection": "augmented"}, TWO, THREE),
        ({"connection": "augmented_running_sum"}, TWO, THREE),
        ({"connection": "vanilla"}, TWO, ("residual", "contextual")),
        ({"parallel_blocks": True}, TWO, TWO),
        ({"encoder_input": False}, ("contextual",), ("contextual",)),
    ],
)
def test_ablation_variants_have_the_expected_features(changed, first, later):
    settings = {**saved_model.SETTINGS, "blocks": 2, "hidden_size": 4, **changed}
    module = build(settings, outputs=3)
    assert [occlusion.features_seen(module, block) for block in (0, 1)] == [first, later]
    side = {"ids": jax.ShapeDtypeStruct((1, 2), np.int32)}
    params = jax.eval_shape(module.init, jax.random.key(0), side, side, saved_model.vectors())["params"]
    tokens, sentences = {"ids": np.array([[2, 3]], np.int32)}, np.array([[1, 2]], np.int8)

    def forward(params, kept):
        return occlusion.logits_without(module, params, saved_model.vectors(), tokens, sentences, kept)

    # Tracing fails unless each part of the input has a name.
    assert jax.eval_shape(forward, params, np.ones((2, 3), bool)).shape == (1, 3)


def test_occlusion_supports_character_and_exact_match_features(tmp_path):
    settings = {**saved_model.SETTINGS, "characters": "cnn", "character_features": 4, "exact_match": True}
    params = saved_model.parameters(3, settings=settings)
    matcher = jaxmatch.load(saved_model.save(tmp_path / "run", model_settings=settings, params=params))
    whole, masked = occlusion.occluded_logits(matcher, SPLIT, np.array([[[True] * 3], [[False, True, True]]]))
    np.testing.assert_allclose(whole, matcher.logits(PAIRS), rtol=1e-4, atol=1e-4)
    assert np.abs(masked - whole).max() > 1e-3


def test_unsupported_models_and_data_are_refused(tmp_path, network):
    _, matcher = network
    regression = jaxmatch.load(saved_model.save(tmp_path / "run", task="regression", labels=()))
    with pytest.raises(InputError, match="a regression has none"):
        occlusion.occlusion(regression, SPLIT)
    with pytest.raises(InputError, match="holds no pairs"):
        occlusion.occlusion(matcher, Split([], [], []))
    other_model = jaxmatch.load(saved_model.save(tmp_path / "other"))
    object.__setattr__(other_model.model, "module", jax.nn)
    with pytest.raises(InputError, match="works on RE2 only"):
        occlusion.occlusion(other_model, SPLIT)


ATTENDED = [("a b c", "no D é"), ("e d c b a", "unseen c"), ("b", "a")]


def test_weights_equal_the_reference_implementation(network, monkeypatch):
    state, matcher = network
    recorded, softmax = [], reference_re2.softmax

    def record(scores, axis):
        recorded.append(softmax(scores, axis))
        return recorded[-1]

    monkeypatch.setattr(reference_re2, "softmax", record)
    logits = reference_re2.logits(state, NETWORK, *ids_of(matcher, ATTENDED))
    calls = iter(recorded)  # pair by pair, block by block, over the second sentence and then over the first
    for pair, expected in zip(attention(matcher, ATTENDED), logits, strict=True):
        assert [block.name for block in pair.blocks] == ["block 1", "block 2", "block 3"]
        for block in pair.blocks:
            np.testing.assert_allclose(block.over_b, next(calls), rtol=0, atol=1e-5)
            np.testing.assert_allclose(block.over_a, next(calls), rtol=0, atol=1e-5)
            assert block.over_b.dtype == np.float32
        assert pair.prediction.label == saved_model.LABELS[int(expected.argmax())]
    assert next(calls, None) is None


TINY = {"hidden_size": 3, "highway_layers": 1, "factors": 2, "head_size": 7}
# Model -> its settings, and layer name -> the number of the layer's softmax call. Refinement also attends within a
# sentence, which takes further calls.
OTHERS = {
    "esan": ({"hidden_size": 7, "alignment_layers": 2}, {"alignment layer 1": 1, "alignment layer 2": 2}),
    "csran": ({"stacked_layers": 2, **TINY}, {"refinement 1": 1, "refinement 2": 3, "stack": 5}),
    "cafe": (TINY, {"refinement": 1}),
    "decatt": ({"hidden_size": 3, "intra_attention": True}, {"alignment": 2}),
    "esim": ({"hidden_size": 3}, {"alignment": 1}),
}


OF_OTHERS = {name: settings for name, (settings, _) in OTHERS.items()} | {"bimpm": {"hidden_size": 3}}


def tiny(name):
    """Returns a matcher around a random model that is not RE2."""
    module, side = build({"name": name, **OF_OTHERS[name]}, outputs=3), {"ids": np.ones((1, 2), np.int32)}
    model = InferenceModel(module, random_parameters(module, side, side, saved_model.vectors()), saved_model.vectors())
    return matcher_around(model, {})


@pytest.mark.parametrize("name", OTHERS)
def test_weights_are_reported_under_the_layer_that_computed_them(name, monkeypatch):
    """In the n-th call of the softmax, token i of a row attends to token j with weight n + i / 10 + j / 100."""
    matcher, calls = tiny(name), []

    def fake_weights(scores, allowed, dtype):
        calls.append(1)
        positions = np.arange(scores.shape[-1])
        return jnp.where(allowed, len(calls) + positions[:, None] / 10 + positions / 100, 0.0)

    for layer in (attention_layer, cafe, decatt):
        monkeypatch.setattr(layer, "attention_weights", fake_weights)
    monkeypatch.setattr(Matcher, "predict", lambda *_: [Prediction("neutral", None, {})])
    (pair,) = attention(matcher, [("a b", "c no e")])
    expected = OTHERS[name][1]
    assert [block.name for block in pair.blocks] == list(expected)
    for block in pair.blocks:
        # The second sentence has the positions 2, 3 and 4 of the row.
        over_b = [[expected[block.name] + i / 10 + j / 100 for j in (2, 3, 4)] for i in (0, 1)]
        over_a = [[expected[block.name] + i / 10 + j / 100 for i in (2, 3, 4)] for j in (0, 1)]
        np.testing.assert_allclose(block.over_b, over_b, atol=1e-5)
        np.testing.assert_allclose(block.over_a, over_a, atol=1e-5)


def test_both_directions_of_bimpm_are_shown(monkeypatch):
    monkeypatch.setattr(Matcher, "predict", lambda *_: [Prediction("neutral", None, {})])
    (pair,) = attention(tiny("bimpm"), [("a b", "c no e")])
    assert [block.name for block in pair.blocks] == ["matching backward", "matching forward"]
    for block in pair.blocks:
        np.testing.assert_allclose(block.over_b.sum(axis=1), 1.0, rtol=1e-4)
        np.testing.assert_allclose(block.over_a.sum(axis=0), 1.0, rtol=1e-4)
    assert np.ptp(pair.blocks[0].over_b) > 1e-3
    assert np.abs(pair.blocks[0].over_b - pair.blocks[1].over_b).max() > 1e-3


def test_a_model_that_keeps_no_weights_is_refused(network, monkeypatch):
    _, matcher = network
    monkeypatch.setattr(nn.Module, "sow", lambda *_, **__: True)
    with pytest.raises(InputError, match="of the kind RE2 keeps no attention weights"):
        attention(matcher, [("a b c d e a b c d e", "b c d e a b c d e")])  # a length that was not compiled before
