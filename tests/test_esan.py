"""ESAN as a whole: the composition of its layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, compiled, random_parameters
from test_models import ESAN, VECTORS, A, B, logits, side, start

from jaxmatch.layers.attention import ComparisonFusion
from jaxmatch.layers.lstm import Lstm
from jaxmatch.models import build, count_parameters
from jaxmatch.models.esan import CoAttention
from jaxmatch.models.pair_model import pair_rows


def gates(settings):
    """Returns the gates of each alignment layer."""
    module = build(settings, outputs=3)
    shapes = jax.eval_shape(module.init, jax.random.key(0), side(A), side(B), VECTORS)["params"]
    layers = [shapes[f"alignment_{number}"] for number in range(module.config.alignment_layers)]
    return [set(layer.get("augmentation", {})) for layer in layers]


def test_parameter_count_for_quora_equals_hand_computed_value():
    """Table 5 reports 3.9M parameters. For Quora, ESAN has character features, but no tags and no exact matches."""
    module = build({"name": "esan", "characters": "cnn"}, outputs=2)
    table = jax.ShapeDtypeStruct((10, 300), jnp.float32)
    params = jax.eval_shape(module.init, jax.random.key(0), side(A), side(B), table)["params"]
    size, hidden, trained = 400, 150, 0
    trained += 128 * 20 + 5 * 20 * 100 + 100  # characters
    trained += 2 * 4 * (size // 2) * (size + size // 2 + 1)  # encoder
    trained += (2 + 3) * size**2 + (1 + 2) * size  # the gates of both layers
    trained += 2 * size**2 + 2 * (4 * size**2 + size)  # co-attention and fusion
    trained += 4 * 2 * size * hidden + hidden + hidden * 2 + 2  # prediction
    assert count_parameters(params) == trained == 3_856_712


def test_first_layer_has_no_contextual_gate():
    both = {"intermediate", "word", "contextual"}
    assert gates(ESAN | {"alignment_layers": 3}) == [{"intermediate", "word"}, both, both]
    assert gates(ESAN | {"contextual_features": False}) == [{"intermediate", "word"}, {"intermediate", "word"}]
    assert gates(ESAN | {"word_features": False}) == [set(), {"intermediate", "contextual"}]
    assert gates(ESAN | {"augmentation": "simple"}) == gates(ESAN | {"augmentation": "none"}) == [set(), set()]


@pytest.mark.parametrize(
    "settings", [{"word_features": False}, {"contextual_features": False}, {"augmentation": "none"}], ids=str
)
def test_each_ablation_changes_the_logits(settings):
    """With simple augmentation all variants have the same parameters, so they differ only in what is added."""
    simple = ESAN | {"augmentation": "simple"}
    module, params = start(simple)
    ablated = build(simple | settings, outputs=3)
    assert np.abs(logits(ablated, params) - logits(module, params)).max() > 1e-3


def test_layers_are_composed_as_in_figure_1():
    """The hidden size is odd. With simple augmentation, each layer adds its features without gates."""
    module, vectors = build(ESAN | {"augmentation": "simple", "alignment_layers": 2}, outputs=3), VECTORS[:, :5]
    params = random_parameters(module, side(A), side(B), vectors)
    tokens, sentences = pair_rows(side(A), side(B))
    words = vectors[tokens["ids"]]
    contextual = applied(Lstm(3), {"params": params["encoder"]["layer_0"]}, (words,), sentences)[..., :5]

    def layer(number, augmented):
        of_layer = params[f"alignment_{number}"]
        aligned = applied(CoAttention(5), {"params": of_layer["alignment"]}, augmented, sentences)
        return applied(ComparisonFusion(5), {"params": of_layer["fusion"]}, (augmented,), (aligned,), None)

    first = layer(0, contextual + words)
    second = np.asarray(layer(1, first + words + contextual))
    found = compiled(lambda: module.apply({"params": params}, tokens, sentences, vectors, method="sentence_vectors"))()
    for which, vector in zip((1, 2), found, strict=True):
        for row in range(len(A)):
            own = second[row, np.asarray(sentences[row]) == which]
            np.testing.assert_allclose(
                vector[row], np.concatenate([own.mean(axis=0), own.max(axis=0)]), rtol=1e-4, atol=1e-4
            )


def test_attention_weights_are_available_as_intermediates():
    module, params = start(ESAN)
    _, kept = applied(module, {"params": params}, side(A), side(B), VECTORS, mutable=["intermediates"])
    (weights,) = kept["intermediates"]["alignment_1"]["alignment"]["weights"]
    np.testing.assert_allclose(np.asarray(weights)[0, :5].sum(axis=-1), 1, rtol=1e-5)
