"""Word features from vectors, characters, tags and exact matches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied, compiled, random_parameters

from jaxmatch.config.models import RE2Config
from jaxmatch.errors import InputError
from jaxmatch.layers.lstm import Lstm
from jaxmatch.layers.words import CharacterConvolution, CharacterFeatures, CharacterLstm, WordFeatures

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
    return WordFeatures(
        RE2Config(**(dict(character_features=4, known_characters=9, tag_features=2, known_tags=4) | changes))
    )


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
        np.testing.assert_allclose(
            found[word], np.concatenate([states[word, last, :2], states[word, 0, 2:]]), atol=1e-6
        )
    np.testing.assert_array_equal(found[3], 0)
    with pytest.raises(InputError, match="5 character features cannot be shared"):
        CharacterLstm(5).init(jax.random.key(0), EMBEDDED, MASK)


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


@pytest.mark.parametrize("missing", ["characters", "tags", "exact_match"])
def test_missing_word_feature_is_named_in_the_error(missing):
    module = words(characters="bilstm", tags=True, exact_match=True)
    params = random_parameters(module, {"ids": IDS}, VECTORS)  # parameters do not depend on the given features
    expected = random_parameters(module, TOKENS, VECTORS)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, expected)
    fewer = {name: value for name, value in TOKENS.items() if name != missing}
    with pytest.raises(InputError, match=f"the model takes '{missing}' of each word"):
        applied(module, {"params": params}, fewer, VECTORS)
