"""BiMPM against a NumPy implementation of the equations of its paper (Wang et al., 2017, section 3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import check_logits, equations, linear, random_parameters
from test_layers_lstm import expected_states, read
from test_models import shapes

from jaxmatch.config.settings import model_config
from jaxmatch.errors import InputError
from jaxmatch.models import build
from jaxmatch.models.bimpm import STRATEGIES, PerspectiveMatching

HIDDEN, PERSPECTIVES = 16, 3
SMALL = {"name": "bimpm", "hidden_size": HIDDEN, "perspectives": PERSPECTIVES, "head_size": 10}
RANDOM = np.random.default_rng(4)
VECTORS = jnp.asarray(RANDOM.normal(size=(30, 12)), jnp.float32)
IDS_A = np.array([[3, 4, 5, 6, 7, 8, 9, 10], [8, 9, 10, 0, 0, 0, 0, 0], [11, 12, 0, 0, 0, 0, 0, 0]], np.int32)
IDS_B = np.array([[12, 13, 4, 0, 0, 0, 0, 0], [2, 3, 4, 5, 6, 7, 21, 22], [18, 0, 0, 0, 0, 0, 0, 0]], np.int32)


def cosine(one, other):
    return one @ other / np.sqrt((one @ one) * (other @ other))


def perspectives(one, other, weights):
    """Computes f_m of section 3.2."""
    return [cosine(row * one, row * other) for row in weights]


def matching(strategy, token, others, last, weights):
    """Computes section 3.2: one token's state against the states of the other sentence, whose final state is `last`."""
    similarity = [cosine(token, other) for other in others]
    if strategy == "full":
        return perspectives(token, last, weights)
    if strategy == "maxpooling":
        return np.max([perspectives(token, other, weights) for other in others], axis=0)
    if strategy == "attentive":
        mean = sum(weight * other for weight, other in zip(similarity, others, strict=True)) / sum(similarity)
        return perspectives(token, mean, weights)
    return perspectives(token, others[np.argmax(similarity)], weights)


def matched(states, params):
    """Returns the matching vectors of both sentences. `states` holds two arrays <float>[tokens, 2 * hidden]."""
    sequences = []
    for own, other in (states, states[::-1]):
        of_directions = []
        for direction, half in (("forward", slice(None, HIDDEN)), ("backward", slice(HIDDEN, None))):
            last = other[-1 if direction == "forward" else 0, half]
            weights = params[f"matching_{direction}"]
            for strategy in STRATEGIES:
                of_strategy = np.asarray(weights[strategy], np.float64)
                of_directions.append(
                    [matching(strategy, token, other[:, half], last, of_strategy) for token in own[:, half]]
                )
        sequences.append(np.concatenate(of_directions, axis=-1))
    return sequences


def reference(params, ids_a, ids_b):
    """Returns the logits of one pair without padding."""
    states = []
    for ids in (ids_a, ids_b):
        words = np.asarray(VECTORS, np.float64)[ids]
        ones = np.ones((1, len(ids)), np.int8)
        states.append(expected_states(words[None], ones, params["context"])[0])
    ends = []
    for sequence in matched(states, params):
        forward, backward = read(sequence, params["aggregation"], 0), read(sequence[::-1], params["aggregation"], 1)
        ends += [forward[-1], backward[-1]]
    hidden = np.tanh(linear(params["prediction"]["hidden_0"], np.concatenate(ends)))
    return linear(params["prediction"]["output"], hidden)


def test_logits_match_the_equations_of_the_paper():
    module = build(SMALL, outputs=3)
    params = random_parameters(module, {"ids": IDS_A}, {"ids": IDS_B}, VECTORS, seed=1)
    expected = [reference(params, a[a > 0], b[b > 0]) for a, b in zip(IDS_A, IDS_B, strict=True)]
    assert np.ptp(expected, axis=0).min() > 1e-2  # the pairs differ
    check_logits(module, params, IDS_A, IDS_B, VECTORS, np.array(expected))


@pytest.mark.parametrize("left_out", STRATEGIES)
def test_an_ablation_leaves_out_one_strategy(left_out):
    found = shapes(SMALL | {STRATEGIES[left_out]: False})
    assert set(found["matching_forward"]) == set(found["matching_backward"]) == set(STRATEGIES) - {left_out}
    assert found["aggregation"]["input_kernel"].shape[0] == 2 * 3 * PERSPECTIVES


def test_a_model_without_a_matching_strategy_is_an_error():
    with pytest.raises(InputError, match="the model has no matching strategy; set model.full_matching to True"):
        shapes(SMALL | dict.fromkeys(STRATEGIES.values(), False))


def test_no_array_holds_a_vector_for_each_pair_of_tokens():
    """No array of a training step is as large as [batch, length, length, perspectives, hidden]."""
    config, (batch, length) = model_config(SMALL), (2, 16)
    states, sentences = jnp.ones((batch, length, HIDDEN)), jnp.ones((batch, length), jnp.int8)
    module = PerspectiveMatching(config)
    params = random_parameters(module, states, states, sentences)
    step = jax.make_jaxpr(jax.grad(lambda params: module.apply({"params": params}, states, states, sentences).sum()))(
        params
    )
    largest = max(variable.aval.size for equation in equations(step.jaxpr) for variable in equation.outvars)
    assert largest == batch * PERSPECTIVES * length * length
