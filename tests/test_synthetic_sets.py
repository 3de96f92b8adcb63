"""The embedded sets as they are generated: sizes, labels, vectors, and no shortcut that reveals the labels."""

import collections
import hashlib

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeClassifier

from jaxmatch.data import synthetic
from jaxmatch.errors import InputError


@pytest.fixture(scope="module")
def sets():
    return {kind: synthetic.generate(kind) for kind in synthetic.KINDS}


def test_sets_have_the_specified_sizes_labels_and_lengths(sets):
    for kind, data in sets.items():
        assert data.name == kind
        for name, split in data.splits.items():
            assert abs(len(split) - (6000 if name == "train" else 1000)) <= 2
            counts = collections.Counter(split.labels)
            assert set(counts) == set(data.labels)
            if data.task == "classification":
                assert max(counts.values()) == min(counts.values())
            for text in (*split.text_a, *split.text_b):
                assert 4 <= len(text.split()) <= 14
                assert text == text.lower() and all(character.isalpha() or character == " " for character in text)


def test_no_pair_occurs_twice(sets):
    for data in sets.values():
        pairs = [
            frozenset(pair) for split in data.splits.values() for pair in zip(split.text_a, split.text_b, strict=True)
        ]
        assert len(set(pairs)) == len(pairs)
        assert all(len(pair) == 2 for pair in pairs)


def test_ranking_groups_have_one_question_and_five_candidates(sets):
    data = sets["embedded_ranking"]
    assert data.task == "ranking" and data.labels == ("0", "1")
    groups_seen = set()
    for split in data.splits.values():
        labels = collections.defaultdict(list)
        questions = collections.defaultdict(set)
        for group, question, right in zip(split.groups, split.text_a, split.labels, strict=True):
            labels[group].append(right)
            questions[group].add(question)
        assert all(len(each) == 5 and set(each) == {"0", "1"} for each in labels.values())
        assert all(len(each) == 1 for each in questions.values())
        assert len(set(split.documents)) == len(split.documents)
        assert not groups_seen & set(labels)
        groups_seen |= set(labels)


def probe(features, train, dev):
    """Returns the accuracy on dev of a linear classifier."""
    model = RidgeClassifier(alpha=10.0, solver="lsqr").fit(features(train), train.labels)
    return model.score(features(dev), dev.labels)


@pytest.mark.parametrize("kind", synthetic.KINDS)
def test_linear_probes_do_not_solve_the_sets(sets, kind):
    data = sets[kind]
    train, dev = data.splits["train"], data.splits["dev"]
    words = CountVectorizer(token_pattern=r"\S+").fit([*train.text_a, *train.text_b])
    chance = max(collections.Counter(dev.labels).values()) / len(dev)
    assert probe(lambda split: words.transform(split.text_a).astype(float), train, dev) < chance + 0.07
    assert probe(lambda split: words.transform(split.text_b).astype(float), train, dev) < chance + 0.05

    def compared(split):
        a, b = words.transform(split.text_a).astype(float), words.transform(split.text_b).astype(float)
        return scipy.sparse.hstack([a, b, abs(a - b), a.multiply(b)]).tocsr()

    assert probe(compared, train, dev) < 0.7


def cosine(vectors, first, second):
    first, second = vectors[first].astype(float), vectors[second].astype(float)
    return first @ second / np.sqrt((first @ first) * (second @ second))


def test_vectors_cover_every_word(sets):
    vectors = synthetic.word_vectors()
    words = {
        word
        for data in sets.values()
        for split in data.splits.values()
        for text in (*split.text_a, *split.text_b)
        for word in text.split()
    }
    assert words <= set(vectors)
    matrix = np.stack(list(vectors.values()))
    assert matrix.shape[1] == synthetic.DIMENSIONS and matrix.dtype == np.float32
    assert 0.1 < matrix.var() < 0.2
    assert len({vector.tobytes() for vector in vectors.values()}) == len(vectors)


def test_vectors_follow_the_taxonomy():
    vectors = synthetic.word_vectors()

    def near(first, second):
        return cosine(vectors, first, second)

    assert near("big", "large") > 0.9 and near("car", "automobile") > 0.9
    assert near("poodle", "dog") > near("poodle", "sparrow") > near("poodle", "red")
    assert near("red", "blue") > near("red", "happy")
    assert 0 < near("big", "small") < near("big", "large")
    assert near("big", "small") > near("big", "young")
    assert near("three", "four") > near("three", "five") > near("three", "seven")
    assert near("dog", "dogs") > 0.8
    # Opposites differ in one direction that they share with other opposites.
    assert (vectors["big"] - vectors["small"]) @ (vectors["happy"] - vectors["sad"]) > 0


def test_version_matches_the_digest_of_the_output(sets):
    """If the generated data changes, increase VERSION and update this digest, because caches depend on VERSION. Each
    process has another hash seed, on which the data must not depend.
    """
    digest = hashlib.sha256()
    for data in sets.values():
        for split in data.splits.values():
            for row in zip(split.text_a, split.text_b, split.labels, strict=True):
                digest.update("\t".join(row).encode() + b"\n")
    for word, vector in synthetic.word_vectors().items():
        digest.update(word.encode() + np.round(vector * 10_000).astype("<i4").tobytes())
    assert (synthetic.VERSION, digest.hexdigest()[:16]) == ("2", "2d68366c451d2c39")


def test_unknown_kind_is_an_error_with_a_suggestion():
    with pytest.raises(InputError, match='did you mean "embedded_inference"'):
        synthetic.generate("embedded_inferense")
