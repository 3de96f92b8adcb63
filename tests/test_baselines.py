"""Baselines equal their formulas and are fitted on train only."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from small_cohort import make_data

from jaxmatch.baselines import BASELINES, measured
from jaxmatch.data.encoding import EncodedData


def with_splits(data: EncodedData, **changes) -> EncodedData:
    """Returns the data with changed columns of some splits: dev={"labels": ...}."""
    splits = {name: dataclasses.replace(split, **changes.get(name, {})) for name, split in data.splits.items()}
    return dataclasses.replace(data, splits=splits)


def small(task: str = "classification", classes: int = 2) -> EncodedData:
    """Returns data with unknown words, repeated words, and sentences that have only unknown words."""
    data = make_data(task)
    random = np.random.default_rng(0)
    changes = {}
    for name, split in data.splits.items():
        changes[name] = {
            side: np.where(random.random(len(getattr(split, side))) < 0.2, 1, getattr(split, side) // 3 + 1)
            for side in ("tokens_a", "tokens_b")
        }
        if classes == 3:
            changes[name]["labels"] = np.where(random.random(split.pairs) < 0.3, 2, split.labels).astype(np.int32)
    labels = ("0", "1", "2")[:classes] if data.labels else ()
    return dataclasses.replace(with_splits(data, **changes), labels=labels)


def sentences(split):
    """Yields the pairs as lists of ids without unknown words."""
    for pair in range(split.pairs):
        a = split.tokens_a[split.offsets_a[pair] : split.offsets_a[pair + 1]]
        b = split.tokens_b[split.offsets_b[pair] : split.offsets_b[pair + 1]]
        yield [word for word in a.tolist() if word > 1], [word for word in b.tolist() if word > 1]


def shares(data, split):
    found = []
    for a, b in sentences(split):
        common = len(set(a) & set(b))
        found.append([common / max(1, len(set(a))), common / max(1, len(set(b)))])
    return np.array(found)


def cosines(data, split):
    found = []
    for a, b in sentences(split):
        a, b = (np.mean(data.vectors[side], axis=0) if side else np.zeros(data.vectors.shape[1]) for side in (a, b))
        length = math.sqrt(a @ a) * math.sqrt(b @ b)
        found.append([a @ b / length if length else 0.0])
    return np.array(found)


def bm25_scores(data, split):
    documents = [b for _, b in sentences(data.splits["train"])]
    mean = sum(map(len, documents)) / len(documents)
    containing = Counter(word for document in documents for word in set(document))
    found = []
    for question, document in sentences(split):
        total = 0.0
        for word in question:
            often = document.count(word)
            weight = math.log(1 + (len(documents) - containing[word] + 0.5) / (containing[word] + 0.5))
            total += weight * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * len(document) / mean))
        found.append([total])
    return np.array(found)


FEATURES = {"overlap": shares, "cosine": cosines, "bm25": bm25_scores}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", FEATURES)
def test_overlap_cosine_and_bm25_equal_scikit_learn_logistic_regression(name, classes):
    data = small("ranking" if name == "bm25" else "classification", classes=2 if name == "bm25" else classes)
    classes, train = len(data.labels), data.splits["train"]
    inputs = FEATURES[name](data, train)
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
    # With two classes, the baseline has two opposite weights in place of one, and so half the penalty.
    model = LogisticRegression(C=2.0 if classes == 2 else 1.0, tol=1e-8).fit((inputs - mean) / scale, train.labels)
    baseline = BASELINES[name].fit(data)
    assert baseline.parameters == (inputs.shape[1] + 1) * classes
    for split in data.splits.values():
        expected = model.predict_proba((FEATURES[name](data, split) - mean) / scale)
        np.testing.assert_allclose(softmax(baseline.outputs(split), axis=1), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["overlap", "cosine"])
def test_overlap_and_cosine_regressions_equal_least_squares(name):
    data = small("regression")
    train, test = data.splits["train"], data.splits["test"]
    model = LinearRegression().fit(FEATURES[name](data, train), train.labels)
    baseline = BASELINES[name].fit(data)
    np.testing.assert_allclose(baseline.outputs(test)[:, 0], model.predict(FEATURES[name](data, test)), atol=1e-6)
    assert baseline.parameters == FEATURES[name](data, train).shape[1] + 1


def test_majority_outputs_the_class_shares_or_mean_of_train():
    data = small(classes=3)
    baseline = BASELINES["majority"].fit(with_splits(data, train={"labels": np.repeat([2, 1, 0], [30, 25, 15])}))
    np.testing.assert_allclose(baseline.outputs(data.splits["dev"]), [[15 / 70, 25 / 70, 30 / 70]] * 30)
    regression = small("regression")
    mean = regression.splits["train"].labels.mean()
    np.testing.assert_allclose(
        BASELINES["majority"].fit(regression).outputs(data.splits["dev"]), [[mean]] * 30, atol=1e-6
    )
    assert baseline.parameters == 0


def test_titles_of_baselines_depend_on_the_task():
    titles = ["mean of the training scores", "word overlap", "TF-IDF with ridge regression"]
    assert [row["title"] for row in measured(small("regression"), ("majority", "overlap", "tfidf"))] == titles
    assert [row["title"] for row in measured(small(), ("majority", "overlap"))] == ["majority class", "word overlap"]


@pytest.mark.parametrize(("task", "classes"), [("classification", 2), ("classification", 3), ("regression", 1)])
def test_tfidf_equals_scikit_learn_on_the_texts(task, classes):
    data = small(task, classes)
    texts = {
        name: [[" ".join(map(str, side)) for side in pair] for pair in sentences(split)]
        for name, split in data.splits.items()
    }
    vectorizer = TfidfVectorizer(token_pattern=r"\S+").fit(
        [text for side in (0, 1) for text in (p[side] for p in texts["train"])]
    )

    def features(name):
        a, b = (vectorizer.transform([pair[side] for pair in texts[name]]).toarray() for side in (0, 1))
        return np.hstack([a, b, np.abs(a - b), a * b])

    model = (Ridge() if task == "regression" else LogisticRegression(max_iter=1000)).fit(
        features("train"), data.splits["train"].labels
    )
    outputs = BASELINES["tfidf"].fit(data).outputs(data.splits["test"])
    if task == "regression":
        np.testing.assert_allclose(outputs[:, 0], model.predict(features("test")), atol=1e-3)
    else:
        np.testing.assert_allclose(softmax(outputs, axis=1), model.predict_proba(features("test")), atol=1e-3)


def test_class_missing_in_train_is_never_predicted():
    data = small(classes=3)
    lacking = with_splits(data, train={"labels": np.where(data.splits["train"].labels == 1, 0, 2).astype(np.int32)})
    for name in ("majority", "overlap", "cosine", "tfidf"):
        outputs = BASELINES[name].fit(lacking).outputs(data.splits["dev"])
        assert outputs.shape == (30, 3) and np.isfinite(outputs).all() and not (outputs.argmax(axis=1) == 1).any()
    one_class = with_splits(data, train={"labels": np.full(70, 2, np.int32)})
    assert (BASELINES["tfidf"].fit(one_class).outputs(data.splits["dev"]).argmax(axis=1) == 2).all()


def test_nothing_is_learned_from_dev_or_test():
    data = small("ranking")
    rows = measured(data, list(BASELINES))
    random = np.random.default_rng(0)
    other = {name: {"labels": random.permutation(data.splits[name].labels)} for name in ("dev", "test")}
    # Neither the labels of dev and test nor the pairs of dev change an output.
    for name, baseline in BASELINES.items():
        one, two = (baseline.fit(each).outputs(data.splits["test"]) for each in (data, with_splits(data, **other)))
        np.testing.assert_array_equal(one, two)
        alone = dataclasses.replace(data, splits={part: data.splits[part] for part in ("train", "test")})
        np.testing.assert_array_equal(one, baseline.fit(alone).outputs(data.splits["test"]))
        (row,) = (row for row in rows if row["name"] == name)
        assert set(row["dev"]) == set(row["test"]) > {"map", "mrr", "accuracy"}
        assert row["times"]["train_seconds_a_run"] >= 0 < row["times"]["inference_microseconds_a_pair"]


def test_bm25_is_for_rankings_only_and_undefined_scores_are_null():
    data = small()
    data = with_splits(data, test={"labels": np.zeros(30, np.int32)})
    rows = measured(data, ["bm25", "overlap"])
    assert [row["title"] for row in rows] == ["word overlap"]
    assert rows[0]["test"]["auc"] is None and 0 <= rows[0]["test"]["accuracy"] <= 1
    without_test = dataclasses.replace(data, splits={name: data.splits[name] for name in ("train", "dev")})
    assert measured(without_test, ["overlap"])[0]["test"] is None
