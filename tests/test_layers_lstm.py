"""The LSTM against its equations, in its forms for CPUs and for devices.

A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from random_parameters import compiled, random_parameters
from scipy.special import expit as sigmoid

from jaxmatch.layers.core import PRECISIONS, traced_for
from jaxmatch.layers.lstm import Lstm

SENTENCES = np.array(
    [[1, 1, 1, 2, 2, 0, 0], [1, 2, 2, 2, 2, 2, 2], [0, 1, 0, 1, 2, 0, 2], [0] * 7, [2, 2, 0, 0, 0, 0, 0]], np.int8
)
INPUTS = np.random.default_rng(1).normal(size=(5, 7, 3)).astype(np.float32)


@pytest.fixture(params=["cpu", "device"])
def form(request):
    """Runs a test with each form of the recurrence on this machine."""
    with traced_for("cpu" if request.param == "cpu" else ""):
        yield


def read(inputs, params, direction):
    """Computes the textbook LSTM, one token at a time: [tokens, inputs] -> [tokens, features]."""
    of_inputs, of_states, bias = (
        np.asarray(params[name], np.float64) for name in ("input_kernel", "recurrent_kernel", "bias")
    )
    features = bias.shape[-1]
    hidden, cell, outputs = np.zeros(features), np.zeros(features), []
    for token in inputs:
        gate = [
            token @ of_inputs[:, direction, which] + hidden @ of_states[direction, :, which] + bias[direction, which]
            for which in range(4)
        ]
        cell = sigmoid(gate[1]) * cell + sigmoid(gate[0]) * np.tanh(gate[2])
        hidden = sigmoid(gate[3]) * np.tanh(cell)
        outputs.append(hidden)
    return np.array(outputs).reshape(-1, features)


def expected_states(inputs, sentences, params, bidirectional=True):
    """Computes the states of each sentence alone, cut out of its row, and also read from its end if bidirectional."""
    features = params["bias"].shape[-1]
    states = np.zeros((*sentences.shape, features * (1 + bidirectional)))
    for row in range(len(sentences)):
        for sentence in (1, 2):
            places = np.flatnonzero(sentences[row] == sentence)
            states[row, places, :features] = read(inputs[row, places], params, 0)
            if bidirectional:
                states[row, places, features:] = read(inputs[row, places[::-1]], params, 1)[::-1]
    return states


@pytest.mark.parametrize("bidirectional", [True, False])
def test_states_equal_the_textbook_recurrence_of_each_sentence(bidirectional, form):
    module = Lstm(4, bidirectional=bidirectional)
    params = random_parameters(module, (INPUTS,), SENTENCES)
    states = compiled(lambda params: module.apply({"params": params}, (INPUTS,), SENTENCES))(params)
    np.testing.assert_allclose(states, expected_states(INPUTS, SENTENCES, params, bidirectional), atol=1e-5)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_gradients_equal_finite_differences(bidirectional, form):
    module = Lstm(3, bidirectional=bidirectional)
    inputs, sentences = INPUTS[:3, :5], np.array([[1, 1, 2, 2, 0], [0, 1, 0, 2, 2], [1, 1, 1, 1, 2]], np.int8)
    params = random_parameters(module, (inputs,), sentences)
    wanted = np.random.default_rng(2).normal(size=(3, 5, 3 * (1 + bidirectional)))

    @jax.jit
    def loss(params, inputs):
        return jnp.square(module.apply({"params": params}, (inputs,), sentences) - wanted).sum()

    check_grads(loss, (params, inputs), order=1, modes=["rev"], atol=5e-3, rtol=5e-3)


def test_padding_never_changes_a_state_nor_takes_a_gradient(form):
    module = Lstm(3)
    inputs, sentences = INPUTS[:2, :5], np.array([[1, 1, 2, 2, 2], [1, 2, 2, 2, 2]], np.int8)
    params = random_parameters(module, (inputs,), sentences)
    alone = compiled(lambda: module.apply({"params": params}, (inputs,), sentences))()
    places = np.array([1, 2, 4, 6, 7])
    padded = np.full((2, 9, 3), 1e3, np.float32)
    padded[:, places] = inputs
    wide = np.zeros((2, 9), np.int8)
    wide[:, places] = sentences

    def total(inputs):
        states = module.apply({"params": params}, (inputs,), wide)
        return states.sum(), states

    (_, states), gradient = compiled(jax.value_and_grad(total, has_aux=True))(padded)
    np.testing.assert_allclose(states[:, places], alone, atol=1e-6)
    between = np.setdiff1d(np.arange(9), places)
    np.testing.assert_array_equal(states[:, between], 0)
    np.testing.assert_array_equal(gradient[:, between], 0)


def test_gates_use_glorot_initialization_and_the_given_forget_bias():
    inputs, sentences = (np.zeros((1, 1, 30), np.float32),), np.ones((1, 1), np.int8)
    start = Lstm(50, forget_bias=1.5).init
    params = compiled(lambda: start(jax.random.key(0), inputs, sentences)["params"])()
    assert params["input_kernel"].shape == (30, 2, 4, 50) and params["recurrent_kernel"].shape == (2, 50, 4, 50)
    for kernel, inputs in ((params["input_kernel"], 30), (params["recurrent_kernel"], 50)):
        limit = np.sqrt(6 / (inputs + 50))
        assert 0.99 * limit < np.abs(kernel).max() <= limit
        np.testing.assert_allclose(np.std(kernel), limit / np.sqrt(3), rtol=0.03)
    np.testing.assert_array_equal(params["bias"][:, 1], 1.5)
    np.testing.assert_array_equal(params["bias"][:, [0, 2, 3]], 0)


@pytest.mark.parametrize(("features", "bidirectional", "precision"), [(3, True, "float32"), (8, False, "bfloat16")])
def test_device_form_equals_cpu_form_for_vmapped_replicas(features, bidirectional, precision):
    module = Lstm(features, bidirectional=bidirectional, precision=precision)
    replicas = [random_parameters(module, (INPUTS,), SENTENCES, seed=seed) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *replicas)
    wanted = np.random.default_rng(2).normal(size=(*SENTENCES.shape, features * (1 + bidirectional))).astype(np.float32)
    inputs = jnp.asarray(INPUTS, PRECISIONS[precision])

    def results():
        def loss(params, inputs):
            states = module.apply({"params": params}, (inputs[..., :1], inputs[..., 1:]), SENTENCES)
            return (states * wanted).sum(), states

        gradient = jax.vmap(jax.grad(loss, argnums=(0, 1), has_aux=True), in_axes=(0, None))
        forward = jax.vmap(lambda params: module.apply({"params": params}, (inputs,), SENTENCES))
        found = compiled(lambda stacked: (gradient(stacked, inputs), forward(stacked)))(stacked)
        return [np.asarray(leaf, np.float32) for leaf in jax.tree.leaves(found)]

    with traced_for("cpu"):
        on_a_cpu = results()
    on_a_device = results()
    # In bfloat16 the form for devices also rounds the values that it keeps for the backward pass.
    tolerance = 1e-6 if precision == "float32" else 2e-2
    for one, other in zip(on_a_device, on_a_cpu, strict=True):
        assert np.abs(other).max() > 0.1
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())


@pytest.mark.parametrize(("platform", "barriers"), [("cpu", False), ("cuda", True), ("tpu", True), ("", True)])
def test_platform_selects_the_form(platform, barriers):
    module = Lstm(3)
    params = random_parameters(module, (INPUTS,), SENTENCES)
    with traced_for(platform):
        gradient = jax.jit(jax.grad(lambda params: module.apply({"params": params}, (INPUTS,), SENTENCES).sum()))
        text = gradient.lower(params).as_text()
    assert ("optimization_barrier" in text) == barriers  # only the form for devices has them
