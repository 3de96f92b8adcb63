"""The layers of ESAN against a direct implementation of the paper's equations.

A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, compiled, random_parameters
from scipy.special import expit as sigmoid

from jaxmatch.layers.attention import ComparisonFusion, attention_weights, compared, of_other_sentence, of_same_sentence
from jaxmatch.layers.core import Dense
from jaxmatch.layers.pooling import Perceptron, mean_and_max, mean_over_time, sum_over_time
from jaxmatch.models.esan import Augmentation, CoAttention

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


def test_linear_layer_accepts_parts_and_applies_the_activation():
    module = Dense(3, "relu")
    params = random_parameters(module, SEQUENCE)
    expected = np.maximum(SEQUENCE @ params["kernel"] + params["bias"][None, None], 0)
    for parts in ((SEQUENCE,), (SEQUENCE[..., :1], SEQUENCE[..., 1:])):
        np.testing.assert_allclose(applied(module, {"params": params}, *parts), expected, atol=1e-6)
    assert set(random_parameters(Dense(3, use_bias=False), SEQUENCE)) == {"kernel"}


def test_attention_masks_select_the_other_or_the_same_sentence():
    sentences = jnp.array([[1, 2, 0, 2]], jnp.int8)
    np.testing.assert_array_equal(
        of_other_sentence(sentences)[0], [[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    )
    np.testing.assert_array_equal(
        of_same_sentence(sentences)[0], [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 1, 0, 1]]
    )


def test_attention_weights_equal_hand_computed_values():
    scores = jnp.log(jnp.array([[[1.0, 3.0, 5.0], [1.0, 1.0, 1.0], [2.0, 2.0, 6.0]]]))
    allowed = jnp.array([[[True, True, False], [False, False, False], [True, True, True]]])
    np.testing.assert_allclose(
        attention_weights(scores, allowed, jnp.float32)[0], [[0.25, 0.75, 0], [0, 0, 0], [0.2, 0.2, 0.6]], rtol=1e-5
    )


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


def test_gated_none_and_simple_augmentation_equal_direct_computation():
    module = Augmentation("gated")
    params = random_parameters(module, SEQUENCE, {"word": WORD})
    assert set(params) == {"intermediate", "word"}
    gate = sigmoid(
        SEQUENCE @ params["intermediate"]["kernel"]
        + WORD @ params["word"]["kernel"]
        + params["word"]["bias"][None, None]
    )
    np.testing.assert_allclose(
        applied(module, {"params": params}, SEQUENCE, {"word": WORD}), SEQUENCE + gate * WORD, atol=1e-5
    )
    np.testing.assert_array_equal(applied(module, {}, SEQUENCE, {}), SEQUENCE)
    np.testing.assert_array_equal(Augmentation("none").apply({}, SEQUENCE, FEATURES), SEQUENCE)
    simple = Augmentation("simple").apply({}, SEQUENCE, FEATURES)  # Eq. 4
    np.testing.assert_allclose(simple, SEQUENCE + WORD + CONTEXTUAL, atol=1e-6)


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


@pytest.mark.parametrize("sentences", [[[1]], [[2]], [[0, 0]], [[1, 1, 0]]], ids=str)
def test_coattention_without_other_sentence_is_zero_with_finite_gradients(sentences):
    module, sentences = CoAttention(3), np.array(sentences, np.int8)
    sequence = jnp.full((*sentences.shape, 4), 1e4)
    params = random_parameters(module, sequence, sentences)
    run = compiled(jax.value_and_grad(lambda params: module.apply({"params": params}, sequence, sentences).sum()))
    total, gradient = run(params)
    assert total == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_fusion_is_equation_8():
    module = ComparisonFusion(5)
    params = random_parameters(module, (SEQUENCE,), (WORD,), None)
    kernel, bias = weights(params, "output")
    seen = np.concatenate([SEQUENCE, WORD, SEQUENCE - WORD, SEQUENCE * WORD], axis=-1)
    fused = applied(module, {"params": params}, (SEQUENCE,), (WORD,), None)
    np.testing.assert_allclose(fused, np.maximum(seen @ kernel + bias, 0), atol=1e-5)


def test_compared_returns_both_inputs_differences_and_products():
    names = [np.full((1, 1, 1), value, np.float32) for value in (1.0, 2.0, 5.0, 7.0)]
    values = [float(part.squeeze()) for part in compared(tuple(names[:2]), tuple(names[2:]))]
    assert values == [1, 2, 5, 7, -4, -5, 5, 14]


def test_mean_max_and_sum_pooling_ignore_padding():
    sequence = jnp.array([[[1.0, -5.0], [3.0, -7.0], [99.0, 99.0]], [[7.0, 7.0], [8.0, 8.0], [9.0, 9.0]]])
    mask = jnp.array([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(sum_over_time(sequence, mask), [[4, -12], [0, 0]])
    np.testing.assert_array_equal(mean_over_time(sequence, mask), [[2, -6], [0, 0]])
    np.testing.assert_array_equal(mean_and_max(sequence, mask), [[2, -6, 3, -5], [0, 0, 0, 0]])
    gradient = jax.grad(lambda sequence: mean_and_max(sequence, mask).sum())(sequence)
    np.testing.assert_array_equal(gradient, [[[0.5, 1.5], [1.5, 0.5], [0, 0]], np.zeros((3, 2))])


def test_perceptron_is_equations_11_and_12():
    a, b = SEQUENCE[:, 0], WORD[:, 0]
    module = Perceptron("full", "dense", 3, 5, outputs=2)
    params = random_parameters(module, a, b, None)
    first, first_bias, second, second_bias, last, last_bias = weights(params, "hidden_0", "hidden_1", "output")
    hidden = np.maximum(np.concatenate([a, b, a - b, a * b], axis=-1) @ first + first_bias, 0)
    hidden = np.maximum(hidden @ second + second_bias, 0)
    np.testing.assert_allclose(applied(module, {"params": params}, a, b, None), hidden @ last + last_bias, atol=1e-4)
    assert set(random_parameters(Perceptron("simple", "dense", 1, 5, outputs=2), a, b, None)) == {"output"}
