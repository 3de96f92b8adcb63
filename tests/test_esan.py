"""ESAN: its layers against the paper's equations, and their composition.

A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding).
"""

import jax
import jax.numpy as jnp
import numpy as np
from random_parameters import applied, compiled, random_parameters
from scipy.special import expit as sigmoid
from test_models import ESAN, VECTORS, A, B, shapes, side

from jaxmatch.layers.attention import ComparisonFusion, mean_and_max, mean_over_time, sum_over_time
from jaxmatch.layers.lstm import Lstm
from jaxmatch.models import build
from jaxmatch.models.esan import Augmentation, CoAttention
from jaxmatch.models.pair_model import pair_rows


def gates(settings):
    """Returns the gates of each alignment layer."""
    found = shapes(settings)
    layers = [found[name] for name in sorted(found) if name.startswith("alignment_")]
    return [set(layer.get("augmentation", {})) for layer in layers]


def test_first_layer_has_no_contextual_gate():
    both = {"intermediate", "word", "contextual"}
    assert gates(ESAN | {"alignment_layers": 3}) == [{"intermediate", "word"}, both, both]
    assert gates(ESAN | {"contextual_features": False}) == [{"intermediate", "word"}, {"intermediate", "word"}]
    assert gates(ESAN | {"word_features": False}) == [set(), {"intermediate", "contextual"}]
    assert gates(ESAN | {"augmentation": "simple"}) == gates(ESAN | {"augmentation": "none"}) == [set(), set()]


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
            np.testing.assert_allclose(vector[row], np.concatenate([own.mean(axis=0), own.max(axis=0)]), atol=1e-4)


RANDOM = np.random.default_rng(0)
SEQUENCE, WORD, CONTEXTUAL = (RANDOM.normal(size=(2, 6, 4)).astype(np.float32) for _ in range(3))
SENTENCES = np.array([[1, 1, 2, 2, 2, 0], [1, 2, 0, 0, 0, 0]], np.int8)
FEATURES = {"word": WORD, "contextual": CONTEXTUAL}


def weights(params, *names):
    return [
        np.asarray(params[name][which], np.float64)
        for name in names
        for which in ("kernel", "bias")
        if which in params[name]
    ]


def test_gated_augmentation_is_equations_1_to_3():
    module = Augmentation("gated")
    params = random_parameters(module, SEQUENCE, FEATURES)
    (shared,) = weights(params, "intermediate")  # W_g, which both gates share, has no bias
    of_word, word_bias, of_context, context_bias = weights(params, "word", "contextual")
    expected = np.zeros_like(SEQUENCE)
    for place in np.ndindex(2, 6):
        a, e, h = SEQUENCE[place], WORD[place], CONTEXTUAL[place]
        word_gate = sigmoid(a @ shared + e @ of_word + word_bias)
        context_gate = sigmoid(a @ shared + h @ of_context + context_bias)
        expected[place] = a + word_gate * e + context_gate * h
    np.testing.assert_allclose(applied(module, {"params": params}, SEQUENCE, FEATURES), expected, atol=1e-5)


def test_coattention_is_equations_5_to_7():
    module = CoAttention(3)
    params = random_parameters(module, SEQUENCE, SENTENCES)
    (projection,) = weights(params, "projection")
    expected = np.zeros_like(SEQUENCE)
    for row in range(2):
        a, b = (SEQUENCE[row, SENTENCES[row] == sentence].astype(np.float64) for sentence in (1, 2))
        scores = np.exp(np.maximum(a @ projection, 0) @ np.maximum(b @ projection, 0).T)
        expected[row, SENTENCES[row] == 1] = scores / scores.sum(axis=1, keepdims=True) @ b
        expected[row, SENTENCES[row] == 2] = (scores / scores.sum(axis=0)).T @ a
    np.testing.assert_allclose(applied(module, {"params": params}, SEQUENCE, SENTENCES), expected, atol=1e-5)


def test_mean_max_and_sum_pooling_ignore_padding():
    sequence = jnp.array([[[1.0, -5.0], [3.0, -7.0], [99.0, 99.0]], [[7.0, 7.0], [8.0, 8.0], [9.0, 9.0]]])
    mask = jnp.array([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(sum_over_time(sequence, mask), [[4, -12], [0, 0]])
    np.testing.assert_array_equal(mean_over_time(sequence, mask), [[2, -6], [0, 0]])
    np.testing.assert_array_equal(mean_and_max(sequence, mask), [[2, -6, 3, -5], [0, 0, 0, 0]])
    gradient = jax.grad(lambda sequence: mean_and_max(sequence, mask).sum())(sequence)
    np.testing.assert_array_equal(gradient, [[[0.5, 1.5], [1.5, 0.5], [0, 0]], np.zeros((3, 2))])
