"""Layers that several models share, against their equations.

A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding).
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, compiled, random_parameters

from jaxmatch.config.models import RE2Config
from jaxmatch.layers import core
from jaxmatch.layers.core import Dropout, column_norms, kernel_of, matmul, normalized_kernel, random_levels
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.words import CharacterConvolution, CharacterFeatures, CharacterLstm, WordFeatures
from jaxmatch.models.re2 import Convolution, ConvolutionalEncoder, convolve


class Kernel(nn.Module):
    config: RE2Config
    activated: bool

    @nn.compact
    def __call__(self):
        return normalized_kernel(self, (3, 40, 60), activated=self.activated)


def initial_kernel(activated=True, **settings):
    kernel, variables = Kernel(RE2Config(**settings), activated).init_with_output(jax.random.key(0))
    return np.asarray(kernel), variables["params"]


@pytest.mark.parametrize("weight_normalization", ["he", "none"])
@pytest.mark.parametrize(("activated", "variance"), [(True, 2 / 120), (False, 1 / 120)])
def test_initial_kernels_have_the_expected_variance(weight_normalization, activated, variance):
    kernel, _ = initial_kernel(activated=activated, weight_normalization=weight_normalization)
    # With 7,200 draws, the standard error of the estimated deviation is below one percent.
    assert abs(kernel.std() / np.sqrt(variance) - 1) < 0.04
    assert abs(kernel.mean()) < 4 * np.sqrt(variance / kernel.size)


def test_initial_gain_is_the_norm_of_the_direction_or_one():
    kernel, params = initial_kernel()
    assert set(params) == {"direction", "gain"}
    np.testing.assert_allclose(params["gain"], np.sqrt(np.square(params["direction"]).sum(axis=(0, 1))), rtol=1e-5)
    np.testing.assert_allclose(kernel, params["direction"], rtol=1e-5)
    kernel, params = initial_kernel(weight_normalization="unit")
    np.testing.assert_array_equal(params["gain"], np.ones(60))
    np.testing.assert_allclose(column_norms(jnp.asarray(kernel)), np.ones(60), rtol=1e-5)


def test_bfloat16_matmul_rounds_its_operands_and_returns_float32():
    left, right = jnp.array([[1.001, 2.0]]), jnp.array([[1.0], [1.0]])
    exact, rounded = matmul(left, right, "float32"), matmul(left, right, "bfloat16")
    assert rounded.dtype == jnp.float32
    np.testing.assert_allclose(exact, [[3.001]], rtol=1e-6)
    np.testing.assert_array_equal(rounded, [[3.0]])
    backward = jax.make_jaxpr(jax.grad(lambda left: matmul(left, right, "bfloat16").sum()))(left)
    products = [equation for equation in backward.jaxpr.eqns if equation.primitive.name == "dot_general"]
    assert products
    assert all(variable.aval.dtype == jnp.bfloat16 for equation in products for variable in equation.invars)


def test_joint_kernels_and_gradients_match_those_of_each_layer():
    shapes = [(3, 5, 7), (4, 7), (6, 2), (1, 1)]
    generator = np.random.default_rng(0)
    directions, mixed = ([generator.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(2))
    gains = [generator.standard_normal(shape[-1]).astype(np.float32) for shape in shapes]
    directions[1][:, 2] = 0  # its kernel is zero, too

    def of(form):
        def loss(directions, gains):
            kernels = list(form(directions, gains))
            return sum((kernel * own + kernel**2).sum() for kernel, own in zip(kernels, mixed, strict=True)), kernels

        (_, kernels), gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)(directions, gains)
        return kernels, gradients

    found, expected = of(core.kernels_of), of(functools.partial(map, kernel_of))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5), found, expected)


ONES = jnp.ones((50, 41))


@jax.jit
def drop(key, rate, inputs=ONES):
    return Dropout().apply({}, inputs, rate, rngs={"dropout": key})


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropped_share_equals_the_rate_and_kept_values_are_rescaled(rate):
    outputs = np.asarray(drop(jax.random.key(0), rate))
    share = (outputs == 0).mean()
    assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / outputs.size)
    np.testing.assert_allclose(outputs[outputs != 0], 1 / (1 - rate), rtol=1e-4)


def test_mask_is_fixed_by_the_key_and_a_higher_rate_drops_a_superset():
    low, again, high = drop(jax.random.key(0), 0.2), drop(jax.random.key(0), 0.2), drop(jax.random.key(0), 0.3)
    np.testing.assert_array_equal(low, again)
    assert np.all(np.asarray(high)[np.asarray(low) == 0] == 0)
    assert np.any(np.asarray(drop(jax.random.key(1), 0.2)) != np.asarray(low))


def test_random_levels_equal_recorded_values_in_any_layout():
    """Levels are integers that depend on the key and the place alone, not on the device or the layout."""
    known = [[0, 22773, 13910], [26501, 36825, 54458]]
    np.testing.assert_array_equal(random_levels(jax.random.key(0), (2, 3)), known)
    np.testing.assert_array_equal(
        jax.jit(random_levels, static_argnums=1)(jax.random.key(0), (3, 2)).reshape(2, 3), known
    )
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), jnp.arange(3))
    together = jax.vmap(lambda key: random_levels(key, (2, 3)), out_axes=-1)(keys)
    for row in range(3):
        np.testing.assert_array_equal(together[..., row], random_levels(keys[row], (2, 3)))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_masks_of_consecutive_keys_and_positions_are_uncorrelated(first):
    """Any two of 256 consecutive keys, and any two of 64 consecutive places, drop together as often as by chance."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(first), jnp.arange(256))
    dropped = np.asarray(jax.vmap(lambda key: random_levels(key, (64, 64)))(keys).reshape(256, -1) < 1 << 14)
    for axis in (dropped[:, :2048], dropped.reshape(256, 64, 64)[:, :32].reshape(-1, 64).T):
        found = np.corrcoef(axis)[np.triu_indices(len(axis), 1)]
        assert np.abs(found).max() < 6 / np.sqrt(axis.shape[1])


def one_sentence(length, rows=1):
    return jnp.ones((rows, length), jnp.int8)


@pytest.mark.parametrize("width", [1, 3, 5, 9])
def test_matrix_products_are_the_convolution_of_each_sentence(width):
    inputs = jax.random.normal(jax.random.key(0), (2, 7, 3))
    kernel = jax.random.normal(jax.random.key(1), (width, 3, 6))
    sentences = jnp.array([[1, 1, 1, 1, 2, 2, 0], [1, 1, 2, 2, 2, 2, 2]], jnp.int8)
    ours = convolve((inputs,), kernel, sentences, "float32")
    for row, (first, second) in enumerate([(4, 2), (2, 5)]):
        for place in (slice(0, first), slice(first, first + second)):
            expected = jax.lax.conv_general_dilated(
                inputs[row : row + 1, place], kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
            )
            np.testing.assert_allclose(ours[row, place], expected[0], atol=1e-5)


def test_encoder_splits_its_features_among_kernel_sizes():
    module = ConvolutionalEncoder(RE2Config(hidden_size=6, encoder_layers=1, kernel_size=(1, 3, 5)))
    sequence, sentences = jax.random.normal(jax.random.key(1), (1, 7, 4)), one_sentence(7)
    params = random_parameters(module, (sequence,), sentences, None)
    shapes = {name: layer["direction"].shape for name, layer in params.items()}
    assert shapes == {"convolution_0_0": (1, 4, 2), "convolution_0_1": (3, 4, 2), "convolution_0_2": (5, 4, 2)}
    encoded = compiled(lambda params: module.apply({"params": params}, (sequence,), sentences, None))(params)
    middle = Convolution(RE2Config(), 2, width=3).apply({"params": params["convolution_0_1"]}, (sequence,), sentences)
    np.testing.assert_allclose(encoded[..., 2:4], middle, atol=1e-6)


RANDOM = np.random.default_rng(0)
EMBEDDED = RANDOM.normal(size=(4, 6, 3)).astype(np.float32)
MASK = np.arange(6) < np.array([6, 3, 1, 0])[:, None]
IDS = np.array([[2, 3, 0], [4, 2, 3]], np.int32)
TOKENS = {
    "ids": IDS,
    "characters": RANDOM.integers(1, 9, (2, 3, 6)).astype(np.int32) * (np.arange(6) < 4),
    "tags": np.array([[1, 2, 0], [3, 1, 1]], np.int32),
    "exact_match": np.array([[1, 0, 0], [0, 1, 1]], np.int8),
}
VECTORS = RANDOM.normal(size=(5, 4)).astype(np.float32)


def words(**changes):
    return WordFeatures(RE2Config(character_features=4, known_characters=9, tag_features=2, known_tags=4, **changes))


def test_character_convolution_max_pools_each_filter_over_the_word():
    module = CharacterConvolution(7)
    params = random_parameters(module, EMBEDDED, MASK)
    expected = np.zeros((4, 7))
    for word, length in enumerate(MASK.sum(axis=1)):
        padded = np.pad(EMBEDDED[word, :length], ((2, 2), (0, 0)))  # zeros before and after a word
        filtered = [
            np.einsum("ci,cif->f", padded[place : place + 5], params["kernel"]) + params["bias"]
            for place in range(length)
        ]
        expected[word] = np.maximum(filtered, 0).max(axis=0) if length else 0
    np.testing.assert_allclose(applied(module, {"params": params}, EMBEDDED, MASK), expected, atol=1e-5)


def test_character_lstm_returns_the_final_states_of_both_directions():
    module = CharacterLstm(4)
    params = random_parameters(module, EMBEDDED, MASK)
    found = compiled(lambda params: module.apply({"params": params}, EMBEDDED, MASK))(params)
    states = np.asarray(Lstm(2).apply({"params": params["Lstm_0"]}, (EMBEDDED,), MASK.astype(np.int8)))
    for word, last in ((0, 5), (1, 2), (2, 0)):
        np.testing.assert_allclose(found[word], np.append(states[word, last, :2], states[word, 0, 2:]), atol=1e-6)
    np.testing.assert_array_equal(found[3], 0)
    odd, _ = CharacterLstm(5).init_with_output(jax.random.key(0), EMBEDDED, MASK)
    assert odd.shape == (4, 5)


@pytest.mark.parametrize("kind", ["cnn", "bilstm"])
def test_character_padding_changes_no_feature_and_has_zero_gradient(kind):
    module = CharacterFeatures(RE2Config(characters=kind, character_features=4, known_characters=9), size=3)
    characters = TOKENS["characters"]
    params = random_parameters(module, characters)

    def total(params, characters):
        features = applied(module, {"params": params}, characters)
        return features.sum(), features

    run = compiled(jax.value_and_grad(total, has_aux=True))
    (_, features), gradient = run(params, np.pad(characters, ((0, 0), (0, 0), (0, 3))))
    assert features.shape == (2, 3, 4)
    np.testing.assert_allclose(features, applied(module, {"params": params}, characters), atol=1e-6)
    np.testing.assert_array_equal(gradient["embedding"][0], 0)
    assert np.any(gradient["embedding"][1:] != 0)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_word_features_are_the_configured_parts():
    module = words(characters="cnn", tags=True, exact_match=True)
    params = random_parameters(module, TOKENS, VECTORS)
    vectors, characters, tags, matches = applied(module, {"params": params}, TOKENS, VECTORS)
    np.testing.assert_array_equal(vectors, VECTORS[IDS])
    np.testing.assert_array_equal(tags, params["tag_embedding"][TOKENS["tags"]])
    np.testing.assert_array_equal(matches, TOKENS["exact_match"][..., None].astype(np.float32))
    alone = CharacterFeatures(RE2Config(characters="cnn", character_features=4, known_characters=9)).apply(
        {"params": params["characters"]}, TOKENS["characters"]
    )
    np.testing.assert_allclose(characters, alone, atol=1e-6)
    assert len(words().apply({}, TOKENS, VECTORS)) == 1  # only the vectors, and no parameters


def test_parameters_do_not_depend_on_the_given_features():
    module = words(characters="bilstm", tags=True, exact_match=True)
    found, expected = (random_parameters(module, tokens, VECTORS) for tokens in ({"ids": IDS}, TOKENS))
    assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, expected)
