"""A row holds both sentences of a pair. `sentences` gives the sentence of each token (1 or 2; 0 is padding)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, compiled

from jaxmatch.config.models import RE2Config
from jaxmatch.layers.core import WeightNormDense
from jaxmatch.models.re2 import Alignment

BARE = {"params": {"temperature": jnp.array(1.0)}}


def test_identity_alignment_equals_hand_computed_values():
    module, logarithm = Alignment(RE2Config(alignment="identity", hidden_size=4)), np.log(3.0)
    a, b = [[1.0, 0.0], [0.0, 2.0]], [[logarithm, 0.0], [0.0, logarithm]]
    sequence, sentences = jnp.array([[*a, *b, [7.0, 7.0]]]), jnp.array([[1, 1, 2, 2, 0]], jnp.int8)
    start = compiled(module.init)(jax.random.key(0), (sequence,), sentences, None)
    assert start["params"] == {"temperature": 0.5}  # 1 / sqrt(4)
    aligned = applied(module, BARE, (sequence,), sentences, None)[0][0]
    # The scores are [[log 3, 0], [0, 2 log 3]], so that the softmaxes have odds of 3 and of 9 to 1.
    np.testing.assert_allclose(aligned[0], [0.75 * logarithm, 0.25 * logarithm], rtol=1e-5)
    np.testing.assert_allclose(aligned[1], [0.1 * logarithm, 0.9 * logarithm], rtol=1e-5)
    np.testing.assert_allclose(aligned[2], [0.75, 0.25 * 2], rtol=1e-5)
    np.testing.assert_allclose(aligned[3], [0.1, 0.9 * 2], rtol=1e-5)


def test_linear_alignment_projects_both_sentences_with_shared_weights():
    module = Alignment(RE2Config(hidden_size=3))
    sequence, sentences = jax.random.normal(jax.random.key(0), (2, 10, 5)), jnp.array([[1] * 4 + [2] * 6] * 2, jnp.int8)
    variables = compiled(module.init)(jax.random.key(2), (sequence,), sentences, None)
    projected = WeightNormDense(RE2Config(), 3).apply({"params": variables["params"]["projection"]}, sequence)
    a, b = sequence[:, :4], sequence[:, 4:]
    scores = jnp.einsum("bic,bjc->bij", projected[:, :4], projected[:, 4:]) / np.sqrt(3)
    aligned = applied(module, variables, (sequence,), sentences, None)[0]
    np.testing.assert_allclose(aligned[:, :4], jnp.einsum("bij,bjc->bic", jax.nn.softmax(scores, axis=2), b), atol=1e-5)
    np.testing.assert_allclose(aligned[:, 4:], jnp.einsum("bij,bic->bjc", jax.nn.softmax(scores, axis=1), a), atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_padding_at_any_position_does_not_affect_alignment(scale):
    module = Alignment(RE2Config(alignment="identity", hidden_size=1))
    sequence = scale * jax.random.normal(jax.random.key(0), (1, 6, 4))
    alone = applied(module, BARE, (sequence,), jnp.array([[1, 1, 1, 2, 2, 2]], jnp.int8), None)[0][0]
    positions = np.array([0, 2, 3, 4, 7, 8])
    for filling in (0.0, 1e3):
        padded = jnp.full((1, 10, 4), filling).at[:, positions].set(sequence)
        sentences = jnp.zeros((1, 10), jnp.int8).at[:, positions].set(jnp.array([1, 1, 1, 2, 2, 2], jnp.int8))
        np.testing.assert_allclose(applied(module, BARE, (padded,), sentences, None)[0][0, positions], alone, rtol=1e-5)


def test_empty_sentence_gives_finite_values_and_gradients():
    module = Alignment(RE2Config(alignment="identity", hidden_size=1))
    sequence, sentences = jnp.ones((2, 4, 3)), jnp.array([[1, 1, 0, 0], [0, 0, 0, 0]], jnp.int8)

    def total(sequence, temperature):
        return applied(module, {"params": {"temperature": temperature}}, (sequence,), sentences, None)[0].sum()

    value, gradients = compiled(jax.value_and_grad(total, argnums=(0, 1)))(sequence, 1.0)
    assert np.isfinite(value) and all(np.isfinite(gradient).all() for gradient in gradients)
    np.testing.assert_array_equal(applied(module, BARE, (sequence,), sentences, None)[0], np.zeros((2, 4, 3)))


def test_alignment_of_parts_equals_alignment_of_their_concatenation():
    parts = tuple(jax.random.normal(jax.random.key(seed), (2, 5, size)) for seed, size in enumerate((3, 1, 4)))
    sentences = jnp.array([[1, 1, 2, 2, 2], [1, 2, 2, 0, 0]], jnp.int8)
    for kind in ("identity", "linear"):
        module = Alignment(RE2Config(alignment=kind, hidden_size=3))
        whole = (jnp.concatenate(parts, axis=-1),)
        variables = compiled(module.init)(jax.random.key(0), whole, sentences, None)
        rates = (jnp.float32(0.4), {"dropout": jax.random.key(7)})
        expected = applied(module, variables, whole, sentences, rates[0], rngs=rates[1])[0]
        aligned = applied(module, variables, parts, sentences, rates[0], rngs=rates[1])
        np.testing.assert_allclose(jnp.concatenate(aligned, axis=-1), expected, atol=1e-5)


def test_alignment_without_temperature_equals_temperature_one():
    sequence, sentences = (
        np.random.default_rng(0).normal(size=(1, 4, 3)).astype(np.float32),
        np.array([[1, 1, 2, 2]], np.int8),
    )
    plain = Alignment(RE2Config(alignment="identity", hidden_size=4, temperature="none"))
    aligned, variables = plain.init_with_output(jax.random.key(0), (sequence,), sentences, None)
    assert not variables
    scaled = Alignment(RE2Config(alignment="identity", hidden_size=4))
    by_one = scaled.apply({"params": {"temperature": np.float32(1)}}, (sequence,), sentences, None)
    np.testing.assert_array_equal(aligned[0], by_one[0])
    halved = scaled.apply({"params": {"temperature": np.float32(0.5)}}, (sequence,), sentences, None)
    assert np.abs(np.asarray(halved[0]) - np.asarray(aligned[0])).max() > 1e-2
