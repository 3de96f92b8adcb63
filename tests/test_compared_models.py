"""DecAtt, ESIM, the siamese BiLSTM and the transformer against NumPy, written from the equations of their papers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import check_logits, linear, random_parameters
from scipy.special import softmax
from test_layers_lstm import expected_states

from jaxmatch.models import build

RANDOM = np.random.default_rng(5)
VECTORS = jnp.asarray(RANDOM.normal(size=(30, 12)), jnp.float32)
# Thirteen words, because DecAtt's distances of more than ten share a bias.
A = np.zeros((3, 13), np.int32)
A[0], A[1, :3], A[2, :2] = range(3, 16), (8, 9, 10), (11, 12)
B = np.zeros((3, 13), np.int32)
B[0, :3], B[1, :8], B[2, 0] = (12, 13, 4), (2, 3, 4, 5, 6, 7, 21, 22), 18
HIDDEN = 16


def relu(values):
    return np.maximum(values, 0.0)


def perceptron(params, inputs, activation=relu):
    """Computes the layers "hidden_0", "hidden_1", ... and the output layer, which has no activation."""
    for layer in range(len(params) - 1):
        inputs = activation(linear(params[f"hidden_{layer}"], inputs))
    return linear(params["output"], inputs)


def aligned(compared, sequences):
    """Returns, for the tokens of each of two sentences, the attended states of the other sentence."""
    scores = compared[0] @ compared[1].T
    return softmax(scores, axis=-1) @ sequences[1], softmax(scores.T, axis=-1) @ sequences[0]


def feed_forward(params, inputs):
    return relu(linear(params["layer_1"], relu(linear(params["layer_0"], inputs))))


def decatt(params, pair):
    own = [linear(params["projection"], words / np.linalg.norm(words, axis=1, keepdims=True)) for words in pair]
    if "intra_attention" in params:
        intra = params["intra_attention"]
        for number, words in enumerate(own):
            seen, places = feed_forward(intra["feed_forward"], words), np.arange(len(words))
            distance = np.minimum(np.abs(places[:, None] - places), 11)
            found = softmax(seen @ seen.T + intra["distance_bias"][distance], axis=-1) @ words
            own[number] = np.concatenate([words, found], axis=1)
    found = aligned([feed_forward(params["attend"], words) for words in own], own)
    both = (np.concatenate(sides, axis=1) for sides in zip(own, found, strict=True))
    vectors = [feed_forward(params["compare"], side).sum(axis=0) for side in both]
    return perceptron(params["prediction"], np.concatenate(vectors))


def states_of(params, words):
    return expected_states(words[None], np.ones((1, len(words)), np.int8), params)[0]


def mean_and_max(words):
    return np.concatenate([words.mean(axis=0), words.max(axis=0)])


def esim(params, pair):
    states = [states_of(params["encoder"], words) for words in pair]
    vectors = []
    for own, other in zip(states, aligned(states, states), strict=True):
        compared = relu(
            linear(params["comparison"]["output"], np.concatenate([own, other, own - other, own * other], 1))
        )
        vectors.append(mean_and_max(states_of(params["composition"], compared)))
    return perceptron(params["prediction"], np.concatenate(vectors), np.tanh)


def siamese(params, pair):
    for layer in range(2):
        pair = [states_of(params[f"encoder_{layer}"], words) for words in pair]
    u, v = (words.max(axis=0) for words in pair)
    return perceptron(params["prediction"], np.concatenate([u, v, np.abs(u - v), u * v]))


def normalized(params, values):
    deviation = np.sqrt(values.var(axis=1, keepdims=True) + 1e-6)
    return (values - values.mean(axis=1, keepdims=True)) / deviation * params["scale"] + params["bias"]


def transformer(params, pair):
    rows = []
    for number, words in enumerate(pair):
        angles = np.arange(len(words))[:, None] / 10_000 ** (2 * np.arange(HIDDEN // 2) / HIDDEN)
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        rows.append(linear(params["projection"], words) + waves + params["sentence_embedding"][number + 1])
    row, first = np.concatenate(rows), len(pair[0])
    for number in range(2):
        layer = params[f"layer_{number}"]
        projected = linear(layer["attention"]["projection"], normalized(layer["LayerNorm_0"], row))
        found = []
        for head in np.split(np.arange(HIDDEN), 4):
            query, key, value = (projected[:, part * HIDDEN + head] for part in range(3))
            found.append(softmax(query @ key.T / np.sqrt(len(head)), axis=-1) @ value)
        row = row + linear(layer["attention"]["output"], np.concatenate(found, axis=1))
        wide = linear(layer["wide"], normalized(layer["LayerNorm_1"], row))
        gelu = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
        row = row + linear(layer["narrow"], gelu)
    row = normalized(params["normalization"], row)
    a, b = mean_and_max(row[:first]), mean_and_max(row[first:])
    return perceptron(params["prediction"], np.concatenate([a, b, a - b, a * b]))


SMALL = {
    "decatt": (decatt, {"hidden_size": HIDDEN}),
    "decatt with intra-sentence attention": (decatt, {"hidden_size": HIDDEN, "intra_attention": True}),
    "esim": (esim, {"hidden_size": HIDDEN}),
    "siamese": (siamese, {"hidden_size": HIDDEN, "encoder_layers": 2, "head_size": 10}),
    "transformer": (transformer, {"hidden_size": HIDDEN, "encoder_layers": 2, "feed_forward_size": 20}),
}


@pytest.mark.parametrize("name", SMALL)
def test_logits_match_the_equations_wherever_the_padding_is(name):
    reference, settings = SMALL[name]
    module = build({"name": name.split()[0], **settings}, outputs=3)
    params = random_parameters(module, {"ids": A}, {"ids": B}, VECTORS, seed=1)
    if name == "esim":
        params = jax.tree.map(lambda leaf: 0.5 * leaf, params)  # so that no tanh saturates
    exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    words = np.asarray(VECTORS, np.float64)
    expected = np.array([reference(exact, (words[a[a > 0]], words[b[b > 0]])) for a, b in zip(A, B, strict=True)])
    assert np.ptp(expected, axis=0).min() > 1e-2  # the pairs differ
    check_logits(module, params, A, B, VECTORS, expected)
