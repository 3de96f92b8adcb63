"""The generated sets: what sentences mean, sizes, labels, vectors, and no shortcut that reveals the labels."""

import collections
import hashlib

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeClassifier

from jaxmatch.data import generated
from jaxmatch.data.generated import ALL, NONE, NOT_ALL, SOME, THE, Clause, relation

WORDS = {word.forms[0]: word for word in generated.WORDS}


def clause(quantifier, subject, predicate, patient=None, *, negated=False, style=0):
    """A sentence, in which "old dog" stands for an adjective and a noun."""

    def both(words):
        *adjective, noun = (words or "").split()[-2:] or [None]
        return WORDS[adjective[0]] if adjective else None, WORDS[noun] if noun else None

    return Clause(quantifier, *both(subject), WORDS[predicate], negated, *both(patient), style)


# First sentence, second sentence, and their label according to logic.
KNOWN = [
    (clause(ALL, "dog", "run"), clause(ALL, "poodle", "move"), "entailment"),
    (clause(ALL, "poodle", "run"), clause(ALL, "dog", "run"), "neutral"),
    (clause(NONE, "dog", "run"), clause(NONE, "dog", "move"), "neutral"),
    (clause(SOME, "poodle", "sprint"), clause(SOME, "dog", "run"), "entailment"),
    (clause(SOME, "poodle", "run"), clause(NONE, "dog", "move"), "contradiction"),
    (clause(ALL, "dog", "run"), clause(ALL, "dog", "swim"), "contradiction"),
    (clause(ALL, "dog", "run"), clause(ALL, "dog", "win"), "neutral"),
    (clause(ALL, "old dog", "run"), clause(ALL, "dog", "run"), "neutral"),
    (clause(ALL, "dog", "run"), clause(NOT_ALL, "dog", "run"), "contradiction"),
    (clause(NOT_ALL, "dog", "run"), clause(SOME, "dog", "run", negated=True), "entailment"),
    (clause(THE, "old poodle", "run"), clause(SOME, "dog", "move"), "entailment"),
    (clause(THE, "old poodle", "run"), clause(THE, "young poodle", "run"), "contradiction"),
    (clause(THE, "dog", "run"), clause(THE, "poodle", "run"), "neutral"),
    (clause(THE, "dog", "run"), clause(THE, "cat", "run"), "contradiction"),
    (clause(THE, "poodle", "run", negated=True), clause(THE, "poodle", "move", negated=True), "neutral"),
    (clause(THE, "poodle", "move", negated=True), clause(THE, "poodle", "run", negated=True), "entailment"),
    # Being sad is one way of not being happy, not the only one.
    (clause(THE, "cat", "sad"), clause(THE, "cat", "happy", negated=True), "entailment"),
    (clause(THE, "cat", "happy", negated=True), clause(THE, "cat", "sad"), "neutral"),
    # Deeds, active and passive.
    (clause(THE, "boy", "love", "girl"), clause(THE, "boy", "like", "girl", style=1), "entailment"),
    (clause(THE, "boy", "love", "girl"), clause(THE, "girl", "love", "boy"), "contradiction"),
    (clause(THE, "boy", "love", "old nurse"), clause(THE, "boy", "love", "nurse"), "entailment"),
    (clause(THE, "boy", "love", "nurse", negated=True), clause(THE, "boy", "hate", "nurse"), "neutral"),
    (clause(ALL, "boy", "love", "girl"), clause(SOME, "boy", "like", "girl"), "entailment"),
]


@pytest.mark.parametrize("first, second, expected", KNOWN)
def test_labels_follow_logic(first, second, expected):
    assert generated.well_formed(first) and generated.well_formed(second)
    assert relation(first, second) == expected


@pytest.fixture(scope="module")
def sets():
    return {kind: generated.generate(kind) for kind in generated.SIZES}


def test_sets_have_the_specified_sizes_labels_and_lengths(sets):
    for kind, data in sets.items():
        seen = set()
        assert data.name == kind
        for name, split in data.splits.items():
            assert abs(len(split) - (6000 if name == "train" else 1000)) <= 2
            pairs = list(zip(split.text_a, split.text_b, strict=True))
            assert not seen & set(pairs) and len(set(pairs)) == len(pairs) and all(a != b for a, b in pairs)
            seen |= {*pairs, *(pair[::-1] for pair in pairs)}
            counts = collections.Counter(split.labels)
            assert set(counts) == set(data.labels)
            if data.task == "classification":
                assert max(counts.values()) == min(counts.values())
            for text in (*split.text_a, *split.text_b):
                assert 2 <= len(text.split()) <= 10
                assert text == text.lower() and all(character.isalpha() or character == " " for character in text)


def probe(features, train, dev):
    """Returns the accuracy on dev of a linear classifier."""
    model = RidgeClassifier(alpha=10.0, solver="lsqr").fit(features(train), train.labels)
    return model.score(features(dev), dev.labels)


@pytest.mark.parametrize("kind", generated.SIZES)
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


def test_version_matches_the_digest_of_the_output(sets):
    """If the generated data changes, increase VERSION and update this digest, because caches depend on VERSION. Each
    process has another hash seed, on which the data must not depend.
    """
    digest = hashlib.sha256()
    for data in sets.values():
        for split in data.splits.values():
            for row in zip(split.text_a, split.text_b, split.labels, strict=True):
                digest.update("\t".join(row).encode() + b"\n")
    for word, vector in generated.word_vectors().items():
        digest.update(word.encode() + np.round(vector * 10_000).astype("<i4").tobytes())
    assert (generated.VERSION, digest.hexdigest()[:16]) == ("3", "10f031d59732f39a")
