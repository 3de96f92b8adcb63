"""CSRAN and CAFE: their layers against the papers' equations, and their composition.

A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding).
"""

import functools
import itertools

import jax
import numpy as np
import pytest
import test_models
from random_parameters import compiled, linear, random_parameters
from scipy.special import expit as sigmoid
from scipy.special import softmax
from test_layers_lstm import expected_states
from test_models import CAFE, CSRAN, VECTORS, A, B, side, start

from jaxmatch.config.models import CSRANConfig
from jaxmatch.layers.core import HighwayLayer
from jaxmatch.layers.lstm import Lstm
from jaxmatch.models import count_parameters
from jaxmatch.models.cafe import AttentionRefinement
from jaxmatch.models.pair_model import pair_rows

RELEASED = {"name": "csran", "characters": "bilstm", "known_characters": 86, "tags": True, "known_tags": 48}
RELEASED |= {"highway_layers": 1, "aggregation_layers": 2, "factors": 32}
RELEASED |= {"prediction": "full", "head": "highway", "head_layers": 3}


shapes = functools.partial(test_models.shapes, dimensions=300)


def test_parameter_count_without_lstms_equals_the_released_run():
    """The saved log of the released code lists the shape of every variable except those of the LSTMs."""
    found = shapes(RELEASED)
    highway = 3 * (438 * 200 + 200)

    def machine(inputs):
        return 1 + inputs + 32 * inputs

    def block(size):
        return 2 * (size**2 + 2 * machine(size) + machine(2 * size))

    head = 3 * (1600 * 300 + 300) + 2 * (300 * 300 + 300) + 300 * 3 + 3
    listed = 86 * 20 + 48 * 10 + highway + block(200) + 2 * block(400) + head
    assert listed == 2_872_021
    lstms = [found["words"]["characters"]["encoder"]["Lstm_0"]]
    lstms += [found[f"stack_{number}"] for number in range(3)] + [found[f"aggregation_{number}"] for number in range(2)]
    assert count_parameters(found) - count_parameters(lstms) == listed
    assert count_parameters(found) == 14_472_341
    inputs = [lstm["input_kernel"].shape[0] for lstm in lstms]
    assert inputs == [20, 206, 406, 406, 4 * 3 * 400, 400]


def test_ablations_and_baseline_have_the_expected_layers_and_input_sizes():
    without_refinement = shapes(RELEASED | {"refinement": False})
    assert not any(name.startswith("refinement") for name in without_refinement)
    assert without_refinement["stack_1"]["input_kernel"].shape[0] == 400
    without_co_stack = shapes(RELEASED | {"co_stack": False})
    assert without_co_stack["aggregation_0"]["input_kernel"].shape[0] == 4 * 3 * 400
    as_released = shapes(RELEASED | {"co_stack": False, "aligned_layers": "last"})
    assert as_released["aggregation_0"]["input_kernel"].shape[0] == 4 * 400
    whole = shapes(RELEASED | {"aligned_layers": "last"})  # has no effect with co-stack affinity
    assert whole["aggregation_0"]["input_kernel"].shape[0] == 4 * 3 * 400
    assert without_co_stack["stack_1"]["input_kernel"].shape[0] == 406
    for layers in (1, 5):
        baseline = shapes(RELEASED | {"refinement": False, "co_stack": False, "stacked_layers": layers})
        assert {"stack_0", f"stack_{layers - 1}"} <= set(baseline) and f"stack_{layers}" not in baseline
        assert baseline["aggregation_0"]["input_kernel"].shape[0] == 4 * layers * 400


def refined(params, sequence, sentences):
    """Computes a CAFE block in NumPy, which appends six numbers to each token."""
    return np.concatenate([sequence, np.nan_to_num(expected_scalars(params, sequence, sentences))], axis=-1)


@pytest.mark.parametrize("place, co_stack", [("before", True), ("after", True), ("before", False)])
def test_sentence_vectors_equal_a_numpy_implementation(place, co_stack):
    """This covers highway, stack with CAFE blocks, affinity, alignment, comparison, aggregation and pooling."""
    module, params = start(CSRAN | {"refinement_place": place, "co_stack": co_stack, "stacked_layers": 3})
    tokens, sentences = (jax.tree.map(np.asarray, each) for each in pair_rows(side(A), side(B)))
    words, highway = np.asarray(VECTORS, np.float64)[tokens["ids"]], params["highway"]["layer_0"]
    gate = sigmoid(linear(highway["gate"], words))
    transformed = np.maximum(linear(highway["transform"], words), 0)
    sequence, stack = gate * transformed + (1 - gate) * linear(highway["carry"], words), []
    for number in range(3):
        if place == "before":
            sequence = refined(params[f"refinement_{number}"], sequence, sentences)
        elif number:
            sequence = refined(params[f"refinement_{number - 1}"], sequence, sentences)
        sequence = expected_states(sequence, sentences, params[f"stack_{number}"])
        stack.append(sequence)
    whole, vectors = np.concatenate(stack, axis=-1), []
    aligned = np.zeros_like(whole)
    for row, which in itertools.product(range(len(A)), (1, 2)):
        own, other = np.flatnonzero(sentences[row] == which), np.flatnonzero(sentences[row] == 3 - which)
        layers = itertools.product(stack if co_stack else stack[-1:], repeat=2)
        affinity = np.max([one[row, own] @ another[row, other].T for one, another in layers], axis=0)
        aligned[row, own] = softmax(affinity, axis=-1) @ whole[row, other]
    matched = np.concatenate([whole, aligned, whole - aligned, whole * aligned], axis=-1)
    aggregated = expected_states(matched, sentences, params["aggregation_0"])
    vectors = [(aggregated * (sentences == which)[..., None]).sum(axis=1) for which in (1, 2)]
    found = compiled(lambda: module.apply({"params": params}, tokens, sentences, VECTORS, method="sentence_vectors"))()
    np.testing.assert_allclose(found, vectors, rtol=1e-3, atol=1e-3)


RANDOM = np.random.default_rng(0)
SEQUENCE = RANDOM.normal(size=(2, 6, 4)).astype(np.float32)
SENTENCES = np.array([[1, 1, 2, 2, 2, 0], [1, 2, 0, 0, 0, 0]], np.int8)


def machine(params, vector):
    """Computes Eq. 3 literally, in O(n^2 k) time."""
    linear, factors = np.asarray(params["linear"], np.float64)[:, 0], np.asarray(params["factors"], np.float64)
    pairs = itertools.combinations(range(len(vector)), 2)
    total = sum(factors[i] @ factors[j] * vector[i] * vector[j] for i, j in pairs)
    return float(params["bias"][0]) + linear @ vector + total


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
    np.testing.assert_allclose(found[row, place], softmax(SEQUENCE[row, place] @ same.T, axis=-1) @ same, atol=1e-4)


def test_layers_are_composed_as_in_figure_1():
    module, params = start(CAFE | {"bidirectional": True})
    tokens, sentences = pair_rows(side(A), side(B))
    words = HighwayLayer(3).apply({"params": params["highway"]["layer_0"]}, VECTORS[tokens["ids"]])
    augmented = AttentionRefinement(CSRANConfig(factors=2)).apply({"params": params["refinement"]}, words, sentences)
    states = np.asarray(Lstm(3).apply({"params": params["encoder"]}, augmented, sentences))
    found = compiled(lambda: module.apply({"params": params}, tokens, sentences, VECTORS, method="sentence_vectors"))()
    for which, vector in zip((1, 2), found, strict=True):
        own = [states[row, np.asarray(sentences[row]) == which] for row in range(len(A))]
        expected = [np.concatenate([of_row.mean(axis=0), of_row.max(axis=0)]) for of_row in own]
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-4)
