"""The layers of CSRAN and CAFE against a direct reading of the equations.

A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding).
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, compiled, random_parameters
from scipy.special import softmax

from jaxmatch.config.models import CSRANConfig
from jaxmatch.layers.core import Highway, HighwayLayer
from jaxmatch.layers.pooling import Perceptron
from jaxmatch.models.cafe import AttentionRefinement, FactorizationMachine
from jaxmatch.models.csran import bidirectional_alignment, co_stack_affinity, co_stack_weights

RANDOM = np.random.default_rng(0)
SEQUENCE = RANDOM.normal(size=(2, 6, 4)).astype(np.float32)
STACK = tuple(RANDOM.normal(size=(2, 6, size)).astype(np.float32) for size in (3, 3, 3))
SENTENCES = np.array([[1, 1, 2, 2, 2, 0], [1, 2, 0, 0, 0, 0]], np.int8)


def machine(params, vector):
    """Computes Eq. 3 literally, in O(n^2 k) time."""
    linear, factors = np.asarray(params["linear"], np.float64)[:, 0], np.asarray(params["factors"], np.float64)
    pairs = itertools.combinations(range(len(vector)), 2)
    total = sum(factors[i] @ factors[j] * vector[i] * vector[j] for i, j in pairs)
    return float(params["bias"][0]) + linear @ vector + total


@pytest.mark.parametrize("inputs", [1, 2, 9])
def test_factorization_machine_equals_its_quadratic_definition(inputs):
    module = FactorizationMachine(5)
    vectors = RANDOM.normal(size=(4, inputs)).astype(np.float32)
    params = random_parameters(module, (vectors,))
    ours = applied(module, {"params": params}, (vectors,))
    np.testing.assert_allclose(ours[:, 0], [machine(params, vector) for vector in vectors], rtol=1e-4, atol=1e-4)
    cut = applied(module, {"params": params}, (vectors[:, :1], vectors[:, 1:]))
    np.testing.assert_allclose(cut, ours, atol=1e-5)


def test_highway_layer_equals_hand_computed_values():
    params = {
        "transform": {"kernel": jnp.array([[2.0, 0.0], [0.0, -1.0]]), "bias": jnp.zeros(2)},
        "gate": {"kernel": jnp.zeros((2, 2)), "bias": jnp.log(jnp.array([3.0, 1.0]))},
    }
    # The gates are 3/4 and 1/2; relu(W x) is 2 and 0.
    np.testing.assert_allclose(
        HighwayLayer(2).apply({"params": params}, jnp.array([1.0, 4.0])), [0.75 * 2 + 0.25, 2.0], rtol=1e-6
    )


def test_highway_layer_of_another_size_projects_the_carried_input():
    params = {
        "transform": {"kernel": jnp.array([[2.0], [0.0]]), "bias": jnp.array([1.0])},
        "gate": {"kernel": jnp.zeros((2, 1)), "bias": jnp.log(jnp.array([3.0]))},
        "carry": {"kernel": jnp.array([[10.0], [100.0]]), "bias": jnp.array([5.0])},
    }
    # The gate is 3/4, relu(W x + b) is 3, and the carried input is 10 + 400 + 5. The input may come in parts.
    for parts in ((jnp.array([1.0, 4.0]),), (jnp.array([1.0]), jnp.array([4.0]))):
        np.testing.assert_allclose(
            HighwayLayer(1).apply({"params": params}, *parts), [0.75 * 3 + 0.25 * 415], rtol=1e-6
        )


def test_only_the_first_highway_layer_projects_its_input():
    module = Highway(3, layers=2)
    params = random_parameters(module, (SEQUENCE,), None)
    assert set(params["layer_0"]) == {"transform", "gate", "carry"}
    assert set(params["layer_1"]) == {"transform", "gate"}
    first = HighwayLayer(3).apply({"params": params["layer_0"]}, SEQUENCE)
    expected = HighwayLayer(3).apply({"params": params["layer_1"]}, first)
    np.testing.assert_allclose(applied(module, {"params": params}, (SEQUENCE,), None)[0], expected, atol=1e-5)
    np.testing.assert_array_equal(Highway(3, layers=0).apply({}, (SEQUENCE,), None)[0], SEQUENCE)


def expected_scalars(params, sequence, sentences, project_within=True):
    """Computes the six numbers of each token, one token at a time. Those of padding are NaN."""
    found = np.full((*sentences.shape, 6), np.nan)
    for place in zip(*np.nonzero(sentences), strict=True):
        row, own = place[0], sequence[place].astype(np.float64)
        numbers = []
        for name, partners in (("between", 3 - sentences[place]), ("within", sentences[place])):
            others = sequence[row, sentences[row] == partners].astype(np.float64)
            scores = own @ others.T
            if name == "between" or project_within:
                projection = np.asarray(params[f"{name}_projection"]["kernel"], np.float64)
                scores = np.maximum(own @ projection, 0) @ np.maximum(others @ projection, 0).T
            aligned = softmax(scores, axis=-1) @ others
            numbers.append(machine(params[f"{name}_concatenation"], np.concatenate([aligned, own])))
            numbers.append(machine(params[f"{name}_product"], aligned * own))
            numbers.append(machine(params[f"{name}_difference"], aligned - own))
        found[place] = numbers
    return found


def test_refinement_appends_three_features_each_from_the_other_and_own_sentence():
    module = AttentionRefinement(CSRANConfig(factors=2))
    params = random_parameters(module, SEQUENCE, SENTENCES)
    own, scalars = compiled(lambda params: module.apply({"params": params}, SEQUENCE, SENTENCES))(params)
    np.testing.assert_array_equal(own, SEQUENCE)
    assert scalars.shape == (2, 6, 6)
    tokens = SENTENCES > 0
    np.testing.assert_allclose(
        scalars[tokens], expected_scalars(params, SEQUENCE, SENTENCES)[tokens], rtol=1e-4, atol=1e-4
    )


def test_refinement_with_the_released_options_equals_numpy():
    module = AttentionRefinement(CSRANConfig(factors=2, intra_projection=False, meta_factors=3, flow_intra=True))
    params = random_parameters(module, SEQUENCE, SENTENCES)
    assert "within_projection" not in params and params["meta"]["factors"].shape == (6, 3)
    own, features, found = compiled(lambda params: module.apply({"params": params}, SEQUENCE, SENTENCES))(params)
    np.testing.assert_array_equal(own, SEQUENCE)
    tokens = SENTENCES > 0
    expected = expected_scalars(params, SEQUENCE, SENTENCES, project_within=False)
    np.testing.assert_allclose(features[tokens][:, :6], expected[tokens], rtol=1e-4, atol=1e-4)
    meta = [machine(params["meta"], numbers) for numbers in expected[tokens]]
    np.testing.assert_allclose(features[tokens][:, 6], meta, rtol=1e-3, atol=1e-3)
    row, place = np.argwhere(tokens)[0]
    same = SEQUENCE[row, SENTENCES[row] == SENTENCES[row, place]].astype(np.float64)
    np.testing.assert_allclose(
        found[row, place], softmax(SEQUENCE[row, place] @ same.T, axis=-1) @ same, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("sentences", [[[1]], [[0, 0]], [[2, 2, 0]]], ids=str)
def test_refinement_gradient_is_finite_without_another_sentence(sentences):
    module, sentences = AttentionRefinement(CSRANConfig(factors=2)), np.array(sentences, np.int8)
    sequence = jnp.ones((*sentences.shape, 4))
    params = random_parameters(module, sequence, sentences)
    gradient = compiled(jax.grad(lambda params: module.apply({"params": params}, sequence, sentences)[1].sum()))(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_affinity_is_the_maximum_over_all_layer_pairs(layers):
    stack = STACK[:layers]
    expected = np.full((2, 6, 6), -np.inf)
    for row, i, j in np.ndindex(2, 6, 6):
        for p, q in itertools.product(range(layers), repeat=2):
            expected[row, i, j] = max(expected[row, i, j], stack[p][row, i] @ stack[q][row, j])
    np.testing.assert_allclose(co_stack_affinity(stack, "float32"), expected, atol=1e-5)


def test_affinity_takes_the_maximum_and_not_the_sum():
    first, second = jnp.array([[[1.0], [2.0]]]), jnp.array([[[-3.0], [5.0]]])
    # Token 1 against token 2: 1 * 2, 1 * 5, -3 * 2, -3 * 5.
    np.testing.assert_array_equal(co_stack_affinity((first, second), "float32")[0], [[9, 5], [5, 25]])


def test_affinity_gradient_flows_to_the_maximal_layer_pair():
    first, second = jnp.array([[[1.0], [2.0]]]), jnp.array([[[-3.0], [5.0]]])
    gradients = jax.grad(lambda stack: co_stack_affinity(stack, "float32")[0, 0, 1])((first, second))
    np.testing.assert_allclose(
        gradients[0][0], [[5.0], [0.0]]
    )  # the product of token 1 at layer 1 and token 2 at layer 2
    np.testing.assert_allclose(gradients[1][0], [[0.0], [1.0]])


def test_alignment_is_equation_5_with_a_softmax_over_the_other_sentence():
    aligned = bidirectional_alignment(STACK, co_stack_weights(STACK, SENTENCES, "float32"), "float32")
    affinity = np.asarray(co_stack_affinity(STACK, "float32"))
    whole = np.concatenate(STACK, axis=-1)
    expected = np.zeros_like(whole)
    for row in range(2):
        a, b = (np.flatnonzero(SENTENCES[row] == sentence) for sentence in (1, 2))
        expected[row, a] = softmax(affinity[row][np.ix_(a, b)], axis=-1) @ whole[row, b]
        expected[row, b] = softmax(affinity[row][np.ix_(b, a)], axis=-1) @ whole[row, a]
    np.testing.assert_allclose(np.concatenate(aligned, axis=-1), expected, atol=1e-5)


def test_highway_prediction_head_equals_its_composed_layers():
    a, b = SEQUENCE[:, 0], SEQUENCE[:, 1]
    module = Perceptron("simple", "highway", 2, 5, outputs=3)
    params = random_parameters(module, a, b, None)
    hidden = HighwayLayer(5).apply({"params": params["hidden_0"]}, np.concatenate([a, b], axis=-1))
    expected = hidden @ params["output"]["kernel"] + params["output"]["bias"][None]
    np.testing.assert_allclose(applied(module, {"params": params}, a, b, None), expected, atol=1e-5)
