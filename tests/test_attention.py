"""Extracted attention weights equal those used by the model, and training programs do not store them."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_matcher
import reference_re2
import saved_model
from random_parameters import random_parameters

from jaxmatch.analysis.attention import attention, layer_order
from jaxmatch.data.text import Preprocessing, Vocabulary
from jaxmatch.errors import InputError
from jaxmatch.inference.matcher import InferenceModel, Matcher, Prediction
from jaxmatch.layers import attention as attention_layer
from jaxmatch.models import build, cafe, csran, decatt, esan

PAIRS = [("a b c", "no D é"), ("e d c b a", "unseen c"), ("b", "a")]


@pytest.fixture(scope="module")
def network():
    return reference_matcher.network()


@pytest.fixture(scope="module")
def attentions(network):
    return attention(network[1], PAIRS)


def test_weights_equal_the_reference_implementation(network, attentions, monkeypatch):
    state, matcher = network
    recorded, softmax = [], reference_re2.softmax

    def record(scores, axis):
        recorded.append(softmax(scores, axis))
        return recorded[-1]

    monkeypatch.setattr(reference_re2, "softmax", record)
    logits = reference_re2.logits(state, reference_matcher.SETTINGS, *reference_matcher.ids_of(matcher, PAIRS))
    calls = iter(recorded)  # pair by pair, block by block, over the second sentence and then over the first
    for pair, expected in zip(attentions, logits, strict=True):
        assert [block.name for block in pair.blocks] == ["block 1", "block 2", "block 3"]
        for block in pair.blocks:
            np.testing.assert_allclose(block.over_b, next(calls), rtol=0, atol=1e-5)
            np.testing.assert_allclose(block.over_a, next(calls), rtol=0, atol=1e-5)
            assert block.over_b.dtype == np.float32
        assert pair.prediction.label == saved_model.LABELS[int(expected.argmax())]
    assert next(calls, None) is None


def test_block_10_comes_after_block_2_and_the_stack_last():
    assert sorted(["block 10", "block 2", "block 1"], key=layer_order) == ["block 1", "block 2", "block 10"]
    assert sorted(["stack", "unknown layer", "refinement 2"], key=layer_order) == [
        "refinement 2",
        "unknown layer",
        "stack",
    ]


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


SETTINGS = {name: settings for name, (settings, _) in OTHERS.items()} | {"bimpm": {"hidden_size": 3}}


def tiny(name):
    """Returns a matcher around a random model that is not RE2."""
    module, side = build({"name": name, **SETTINGS[name]}, outputs=3), {"ids": np.ones((1, 2), np.int32)}
    return Matcher(
        InferenceModel(module, random_parameters(module, side, side, saved_model.vectors()), saved_model.vectors()),
        vocabulary=Vocabulary(saved_model.WORDS),
        preprocessing=Preprocessing(**saved_model.PREPROCESSING),
        labels=saved_model.LABELS,
        task="classification",
        config={},
    )


@pytest.mark.parametrize("name", OTHERS)
def test_weights_are_reported_under_the_layer_that_computed_them(name, monkeypatch):
    """In the n-th call of the softmax, token i of a row attends to token j with weight n + i / 10 + j / 100."""
    matcher, calls = tiny(name), []

    def fake_weights(scores, allowed, dtype):
        calls.append(1)
        positions = np.arange(scores.shape[-1])
        return jnp.where(allowed, len(calls) + positions[:, None] / 10 + positions / 100, 0.0)

    for layer in (attention_layer, cafe, csran, decatt, esan):
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


def test_training_program_does_not_store_attention_weights(monkeypatch):
    module = build({**saved_model.SETTINGS, "blocks": 2}, outputs=3)
    ids, sentences = np.array([[2, 3, 4, 5, 0, 0]], np.int32), np.array([[1, 1, 2, 2, 0, 0]], np.int8)

    def loss(params, rate, key):
        options = dict(method="match", rngs={"dropout": key})
        return module.apply({"params": params}, {"ids": ids}, sentences, saved_model.vectors(), rate, **options).sum()

    def program():
        params = saved_model.parameters(3, settings={**saved_model.SETTINGS, "blocks": 2})
        return str(jax.make_jaxpr(jax.grad(loss))(params, np.float32(0.1), jax.random.key(0)))

    with_sow = program()
    monkeypatch.setattr(nn.Module, "sow", lambda *_, **__: False)
    assert program() == with_sow
