"""A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, compiled, random_parameters

from jaxmatch.config.models import RE2Config
from jaxmatch.layers.convolution import Convolution, convolve
from jaxmatch.layers.core import gelu
from jaxmatch.models.re2 import ConvolutionalEncoder


def one_sentence(length, rows=1):
    return jnp.ones((rows, length), jnp.int8)


def test_convolution_equals_hand_computed_values():
    kernel = jnp.array([100.0, 10.0, 1.0]).reshape(3, 1, 1)
    inputs = jnp.array([[[1.0], [2.0], [3.0], [4.0]]])
    # The first tap sees the token before, and the last tap sees the token after. Beyond the ends are zeros.
    np.testing.assert_array_equal(convolve((inputs,), kernel, one_sentence(4), "float32")[0, :, 0], [12, 123, 234, 340])
    sentences = jnp.array([[1, 1, 2, 2]], jnp.int8)
    np.testing.assert_array_equal(convolve((inputs,), kernel, sentences, "float32")[0, :, 0], [12, 120, 34, 340])


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


def test_layer_adds_bias_and_gelu():
    module = Convolution(RE2Config(), 2, width=3)
    inputs = jax.random.normal(jax.random.key(0), (1, 4, 3))
    params = random_parameters(module, (inputs,), one_sentence(4))
    scale = params["gain"] / jnp.linalg.norm(params["direction"].reshape(9, 2), axis=0)
    kernel = params["direction"] * scale[None, None]
    expected = gelu(convolve((inputs,), kernel, one_sentence(4), "float32") + params["bias"][None, None])
    np.testing.assert_allclose(applied(module, {"params": params}, (inputs,), one_sentence(4)), expected, atol=1e-6)


def test_encoder_does_not_see_padding_nor_the_other_sentence():
    module = ConvolutionalEncoder(RE2Config(hidden_size=4, encoder_layers=3))
    sequence = jax.random.normal(jax.random.key(1), (1, 9, 5))
    sentences = jnp.array([[1, 1, 1, 2, 2, 2, 2, 0, 0]], jnp.int8)
    params = random_parameters(module, (sequence,), sentences, None)
    encode = compiled(lambda sequence, sentences: module.apply({"params": params}, (sequence,), sentences, None))
    encoded = encode(sequence, sentences)
    for place in (slice(0, 3), slice(3, 7)):
        alone = encode(sequence[:, place], one_sentence(place.stop - place.start))
        np.testing.assert_allclose(encoded[:, place], alone, atol=1e-6)


def test_encoder_splits_its_features_among_kernel_sizes():
    module = ConvolutionalEncoder(RE2Config(hidden_size=6, encoder_layers=1, kernel_size=(1, 3, 5)))
    sequence, sentences = jax.random.normal(jax.random.key(1), (1, 7, 4)), one_sentence(7)
    params = random_parameters(module, (sequence,), sentences, None)
    shapes = {name: layer["direction"].shape for name, layer in params.items()}
    assert shapes == {"convolution_0_0": (1, 4, 2), "convolution_0_1": (3, 4, 2), "convolution_0_2": (5, 4, 2)}
    encoded = compiled(lambda params: module.apply({"params": params}, (sequence,), sentences, None))(params)
    middle = Convolution(RE2Config(), 2, width=3).apply({"params": params["convolution_0_1"]}, (sequence,), sentences)
    np.testing.assert_allclose(encoded[..., 2:4], middle, atol=1e-6)
