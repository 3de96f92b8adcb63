"""Word vectors computed from hashed character n-grams."""

import hashlib
import tracemalloc

import numpy as np
import pytest
import saved_model
from hypothesis import given
from hypothesis import strategies as st

import jaxmatch
from jaxmatch.data import vectors
from jaxmatch.data.encoding import DataSettings, prepare
from jaxmatch.data.vectors import hashed_vectors
from jaxmatch.errors import InputError


def signs(gram):
    bits = "".join(f"{byte:08b}" for byte in hashlib.blake2b(gram.encode(), digest_size=38).digest())
    return np.array([1 if bit == "1" else -1 for bit in bits[:300]])


def test_a_vector_is_the_scaled_sum_of_its_n_gram_hashes():
    long = "<international>"
    for word, grams in {
        "a": ["<a>"],
        "toes": ["<to", "toe", "oes", "es>", "<toe", "toes", "oes>", "<toes", "toes>", "<toes>"],
        "international": {long, *(long[i : i + n] for n in (3, 4, 5, 6) for i in range(len(long) - n + 1))},
    }.items():
        total = sum(map(signs, grams))
        np.testing.assert_allclose(hashed_vectors([word])[0], 6 * total / np.linalg.norm(total), rtol=1e-6)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5))
def test_every_text_has_a_vector_independent_of_the_other_words(words):
    table = hashed_vectors(words)
    assert table.shape == (len(words), 300) and table.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), 6, rtol=1e-5)
    for word, vector in zip(words, table, strict=True):
        np.testing.assert_array_equal(hashed_vectors([word])[0], vector)


def test_hashing_many_words_needs_little_extra_memory(monkeypatch):
    words = [f"w{number}" for number in range(3000)]
    expected = hashed_vectors(words)
    monkeypatch.setattr(vectors, "MOST_GRAMS", 500)
    tracemalloc.start()
    try:
        found = hashed_vectors(words)
        assert tracemalloc.get_traced_memory()[1] < found.nbytes + 2_000_000
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, expected)


@pytest.fixture
def own(tmp_path):
    (tmp_path / "train.tsv").write_text("text_a\ttext_b\tlabel\nthe cat\ta dog\tx\nthe end\tthe cow\ty\n")
    return DataSettings("own", directory=str(tmp_path))


def test_every_word_of_the_data_has_a_hashed_vector(own, tmp_path):
    data = prepare(DataSettings("own", own.directory, vectors="hashed"), tmp_path / "cache")
    assert set(data.vocabulary.words[2:]) == {"the", "cat", "a", "dog", "end", "cow"}
    np.testing.assert_array_equal(data.vectors[2:], hashed_vectors(data.vocabulary.words[2:]))
    assert not data.vectors[:2].any()
    assert data.report["vectors"] == "hashed character n-grams"
    assert data.report["coverage"]["tokens_with_vector"] == 1
    # Without vectors, the words that occur often enough remain, and their vectors are trained.
    bare = prepare(DataSettings("own", own.directory, vectors="none", minimum_count=2), tmp_path / "cache")
    assert bare.vocabulary.words[2:] == ("the",) and bare.vectors.shape == (3, 300) and not bare.vectors.any()
    assert bare.fingerprint != data.fingerprint
    with pytest.raises(InputError, match="use --vectors hashed"):
        prepare(own, tmp_path / "cache")


def loaded(folder, words="fixed"):
    settings = {**saved_model.SETTINGS, "words": words}
    config = {"data": {"name": "own", "vectors": "hashed"}, "model": settings}
    table = np.concatenate([np.zeros((2, 300), np.float32), hashed_vectors(saved_model.WORDS[2:])])
    params = saved_model.parameters(3, dimensions=300)
    return jaxmatch.load(saved_model.save(folder, vectors=table, params=params, config=config))


def test_a_word_unseen_in_training_has_its_hashed_vector(tmp_path):
    model = loaded(tmp_path / "run")
    pairs = [("a zebra", "b"), ("a quagga", "b"), ("a b", "zebra c")]
    together = model.logits(pairs)
    assert np.abs(together[0] - together[1]).max() > 1e-3
    for pair, logits in zip(pairs, together, strict=True):
        np.testing.assert_allclose(model.logits([pair])[0], logits, atol=1e-4)
    table = np.asarray(model.encoded(pairs).words)
    np.testing.assert_array_equal(table[12:14], hashed_vectors(["zebra", "quagga"]))
    model.warmup(range(2, 4))


def test_unseen_words_are_unknown_if_word_vectors_were_trained(tmp_path):
    first, second = loaded(tmp_path / "run", words="trained").logits([("a zebra", "b"), ("a quagga", "b")])
    np.testing.assert_array_equal(first, second)
