"""Encodings of words are computed once per distinct word of a batch, and results do not change."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_cohort import MODEL, alike, make_cohort, make_data

from jaxmatch.data.batches import most_distinct_words, most_in_evaluation
from jaxmatch.data.text import WordTable, character_table
from jaxmatch.layers.core import traced_for
from jaxmatch.layers.words import distinct, encode_distinct_words
from jaxmatch.models import build
from jaxmatch.training import chunks as chunks_module
from jaxmatch.training.step import BatchShape

# All models encode words by one layer (layers/words.py), so two small models without LSTMs of their own are enough.
DECATT = {"name": "decatt", "hidden_size": 8, "character_features": 4}
RE2 = {**MODEL, "characters": "cnn", "character_features": 4}
WORDS = 20
IDS = st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=40).map(lambda ids: np.array(ids, np.int32))


@settings(deadline=None)
@given(IDS.map(lambda ids: np.resize(ids, 40)))
def test_distinct_equals_numpy_unique_in_order_of_first_occurrence(ids):
    known, first_place = np.unique(ids, return_index=True)
    first, place = jax.jit(distinct, static_argnums=(1, 2))(jnp.asarray(ids), WORDS, WORDS)
    np.testing.assert_array_equal(ids[np.asarray(first)[np.asarray(place)]], ids)
    np.testing.assert_array_equal(first[: len(known)], np.sort(first_place))
    np.testing.assert_array_equal(first[len(known) :], 0)


@given(st.lists(IDS, min_size=2, max_size=4))
def test_distinct_word_counts_include_padding(sentences):
    ids = np.zeros((len(sentences), 40), np.int32)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    assert most_distinct_words([ids[:2], ids[1:]], WORDS) == max(len({0, *ids[:2].flat}), len({0, *ids[1:].flat}))
    assert most_distinct_words([1 + np.arange(8).reshape(2, 4)], WORDS) == 9  # a model may add padding
    assert most_in_evaluation({0: [1 + np.arange(64).reshape(4, 16).repeat(8, axis=1)]}, words=80) == {0: 128}


FIXED, TRAINED, BFLOAT16 = {"words": "fixed"}, {"words": "trained"}, {"precision": "bfloat16"}


@pytest.mark.parametrize(
    "characters, changes",
    [("cnn", FIXED), ("cnn", TRAINED), ("cnn", BFLOAT16), ("bilstm", FIXED), ("bilstm", BFLOAT16)],
    ids=str,
)
def test_outputs_and_gradients_equal_those_of_encoding_each_token(characters, changes):
    random, data = np.random.default_rng(0), make_data()
    module = build({**DECATT, "characters": characters, **changes}, outputs=2)
    tokens = {"ids": jnp.asarray(random.integers(1, 9, (12, 8)), jnp.int32).at[3, 5:].set(0)}
    sentences = jnp.where(tokens["ids"] > 0, jnp.array([[1, 1, 1, 2, 2, 2, 2, 2]]), 0).astype(jnp.int8)
    table = WordTable(jnp.asarray(data.vectors), jnp.asarray(character_table(data.vocabulary.words)))
    init = jax.jit(functools.partial(module.init, method="match"))
    params = init(jax.random.key(0), tokens, sentences, table)

    def loss(params):
        outputs = module.apply(params, tokens, sentences, table, method="match")
        return (outputs[:, 0] - 0.5 * outputs[:, 1]).sum(), outputs

    (_, expected), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    with traced_for("", 9):
        (_, found), of_distinct = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    near = 0.03 if changes is BFLOAT16 else 1e-5
    np.testing.assert_allclose(found, expected, atol=near * np.abs(expected).max())
    for (path, one), other in zip(jax.tree.leaves_with_path(gradients), jax.tree.leaves(of_distinct), strict=True):
        largest = float(jnp.abs(one).max())
        assert largest > 0 or "characters" not in jax.tree_util.keystr(path)
        np.testing.assert_allclose(other, one, atol=10 * near * largest + 1e-6)


def test_gradients_of_a_word_are_summed_in_float32():
    tokens = 768
    ids = jnp.ones((1, tokens), jnp.int32)

    def total(table):
        with traced_for("", 2):
            encoded = encode_distinct_words(lambda numbers: table[numbers], ids, ids, WORDS)
        return (0.0123 * encoded).sum()

    gradient = jax.grad(total)(jnp.ones((WORDS, 1), jnp.bfloat16))
    np.testing.assert_allclose(gradient[1].astype(jnp.float32), 0.0123 * tokens, rtol=0.01)


def with_characters():
    data = make_data()
    return dataclasses.replace(data, characters=character_table(data.vocabulary.words))


def cohort(**training):
    return make_cohort(seeds=(1, 2), model=RE2, data=with_characters(), training={"epochs": 2, **training})


def shapes_of(cohort):
    cohort.chunks.initialize()
    return cohort.chunks.epoch(0).shapes


def test_training_and_evaluation_encode_distinct_words():
    small = cohort(maximum_buckets=1)
    assert shapes_of(small) == {0: BatchShape(8, 64)}  # of 128 tokens
    assert {most_words for _, most_words, _ in small.evaluator.batches["dev"]} == {64}
    plain = make_cohort(seeds=(1,), training={"maximum_buckets": 1})
    assert shapes_of(plain) == {0: BatchShape(8)}
    assert {most_words for _, most_words, _ in plain.evaluator.batches["dev"]} == {None}


def test_an_epoch_with_more_words_than_expected_encodes_each_token(monkeypatch):
    expected = cohort(maximum_buckets=1).train()
    monkeypatch.setattr(chunks_module, "most_in_training", lambda plan, ids, words: dict.fromkeys(plan.shapes, 12))
    short = cohort(maximum_buckets=1)
    assert shapes_of(short) == {0: BatchShape(8)}
    alike(short.train(), expected, atol=1e-4)
