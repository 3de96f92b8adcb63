"""Ranking scores against trec_eval, hand-computed values and general properties."""

import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from random_scores import COARSE, QUICK, columns

from jaxmatch.training import scores
from jaxmatch.training.scores import ranking_deviations, ranking_scores


def trec_eval(labels, values, groups, documents):
    """Means of trec_eval's measures over the groups with right and wrong candidates, by our names."""
    relevance: dict = {}
    run: dict = {}
    for label, value, group, document in zip(labels, values, groups, documents, strict=True):
        relevance.setdefault(str(group), {})[str(document)] = int(label)
        run.setdefault(str(group), {})[str(document)] = float(value)
    relevance = {group: found for group, found in relevance.items() if len(set(found.values())) == 2}
    measures = {"map": "map", "mrr": "recip_rank", **{f"recall_at_{k}": f"recall_{k}" for k in scores.RECALL_AT}}
    judged = pytrec_eval.RelevanceEvaluator(relevance, {"map", "recip_rank", "recall.1,2,5"}).evaluate(run).values()
    return {name: np.mean([j[measure] for j in judged]) if judged else math.nan for name, measure in measures.items()}


@QUICK
@given(
    columns(st.integers(0, 1), COARSE, st.sampled_from(["q3", "q10", "ä"]), most=40),
    st.randoms(use_true_random=False),
)
def test_ranking_scores_equal_trec_eval(case, random):
    labels, values, groups = case
    # "D1-10" sorts before "D1-9": names are compared as text.
    names = [f"D{n % 2}-{n}" for n in range(labels.size)]
    random.shuffle(names)
    documents = np.array(names)
    expected = trec_eval(labels, values, groups, documents)
    got = ranking_scores(labels, values, groups, documents)
    assert got == pytest.approx(expected, rel=1e-12, nan_ok=True)
    numbers = np.unique(groups, return_inverse=True)[1].astype(np.int32)
    assert ranking_scores(labels, values, numbers, documents)["map"] == pytest.approx(got["map"], nan_ok=True)
    assert ranking_scores(labels, values, numbers, documents)["mrr"] == pytest.approx(got["mrr"], nan_ok=True)


def test_ranking_scores_equal_hand_computed_values():
    # First question: ranks are wrong, right, wrong, right. Second: right first. The others do not count.
    labels = [1, 0, 1, 0, 1, 0, 1, 1, 0]
    values = [0.7, 0.9, 0.1, 0.5, 3.0, 2.0, 1.0, 1.0, 1.0]
    groups = [0, 0, 0, 0, 1, 1, 2, 2, 3]
    got = ranking_scores(labels, values, groups)
    assert got["map"] == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1.0) / 2)
    assert got["mrr"] == pytest.approx((1 / 2 + 1.0) / 2)
    assert got["recall_at_1"] == pytest.approx((0 + 1) / 2)
    assert got["recall_at_2"] == pytest.approx((1 / 2 + 1) / 2)
    assert got["recall_at_5"] == 1.0
    # This includes the third question, which has only right candidates, but not the fourth, which has none.
    whole = ranking_scores(labels, values, groups, filtered=False)
    assert whole["map"] == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1.0 + 1.0) / 3) and whole["mrr"] == pytest.approx(
        (1 / 2 + 2.0) / 3
    )
    logits = np.stack([np.zeros(9), values], axis=1)
    options = {"label_names": ("0", "1"), "groups": groups}
    assert scores.score("ranking", labels, logits, **options, filtered=False)["map"] == pytest.approx(whole["map"])
    assert scores.score("ranking", labels, logits, **options)["map"] == pytest.approx(got["map"])


@QUICK
@given(columns(st.integers(0, 1), COARSE, st.integers(0, 3), least=1, most=40), st.booleans())
def test_ranking_deviations_equal_deviations_of_scores_per_question(case, filtered):
    labels, values, groups = case
    each = [
        ranking_scores(labels[groups == one], values[groups == one], groups[groups == one], None, filtered)
        for one in np.unique(groups)
    ]
    each = [scores for scores in each if not math.isnan(scores["map"])]
    logits = np.stack([np.zeros(labels.size), values], axis=1)
    first, broken = ranking_deviations(labels, np.stack([logits, logits * np.nan]), groups, None, filtered)
    assert first["questions"] == broken["questions"] == len(each)
    for name, deviation in first["deviations"].items():
        expected = np.std([scores[name] for scores in each], ddof=1) if len(each) > 1 else math.nan
        assert deviation == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert all(math.isnan(deviation) for deviation in broken["deviations"].values())


def r10_at(k, labels, values):
    """R10@k of rows of ten candidates with one right, as the dialogue papers count it, without ties."""
    best = [sorted(range(10), key=lambda place: -row[place])[:k] for row in values]
    return sum(row.index(1) in places for row, places in zip(labels, best, strict=True)) / len(labels)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 9), st.permutations(range(10))), min_size=1, max_size=12))
def test_recall_at_k_of_ten_candidates_equals_r10_at_k(contexts):
    labels = [[int(place == right) for place in range(10)] for right, _ in contexts]
    values = [values for _, values in contexts]
    groups = np.repeat(np.arange(len(contexts)), 10)
    got = ranking_scores(np.ravel(labels), np.ravel(values), groups)
    for k in scores.RECALL_AT:
        assert got[f"recall_at_{k}"] == pytest.approx(r10_at(k, labels, values))


def test_recall_equals_hand_computed_values():
    # Ten candidates, the right one third by score: among the first five, not among the first two.
    labels, values = [0, 0, 1] + [0] * 7, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    got = ranking_scores(labels, values, [0] * 10)
    assert (got["recall_at_1"], got["recall_at_2"], got["recall_at_5"]) == (0.0, 0.0, 1.0)
    # In a tie, the right candidate comes last. A model that scores all candidates alike finds nothing.
    tied = ranking_scores(labels, [9, 8, 9, 6, 5, 4, 3, 2, 1, 0], [0] * 10)
    assert (tied["recall_at_1"], tied["recall_at_2"]) == (0.0, 1.0)
    alike = ranking_scores(labels, [1.0] * 10, [0] * 10)
    assert [alike[f"recall_at_{k}"] for k in scores.RECALL_AT] == [0.0, 0.0, 0.0]
    # A group of fewer candidates than k.
    assert ranking_scores([1, 0], [0, 1], ["a", "a"])["recall_at_5"] == 1.0


def test_equal_scores_are_ordered_by_descending_document_name():
    labels, values, groups = [1, 0], [0.5, 0.5], [7, 7]
    assert ranking_scores(labels, values, groups, ["b", "a"])["mrr"] == 1.0
    assert ranking_scores(labels, values, groups, ["a", "b"])["mrr"] == 0.5
    # trec_eval stores scores in float32: scores that are equal there are tied, even if they differ in float64.
    assert ranking_scores(labels, [0.5 + 1e-12, 0.5], groups, ["a", "b"])["mrr"] == 0.5


@pytest.mark.parametrize("labels", [[1, 0, 0], [0, 0, 1]])
@pytest.mark.parametrize("documents", [None, ["x", "x", "x"]])
def test_constant_scores_rank_the_right_candidate_last_in_any_order(labels, documents):
    assert ranking_scores(labels, [2.0] * 3, [0] * 3, documents)["map"] == pytest.approx(1 / 3)


@QUICK
@given(columns(st.integers(0, 1), COARSE, st.integers(0, 3), most=20), st.randoms(use_true_random=False))
def test_ranking_does_not_depend_on_the_order_of_the_pairs(case, random):
    labels, values, groups = case
    order = list(range(labels.size))
    random.shuffle(order)
    first = ranking_scores(labels, values, groups)
    second = ranking_scores(labels[order], values[order], groups[order])
    np.testing.assert_allclose(list(first.values()), list(second.values()), rtol=1e-12)


def test_wikiqa_filtering_equals_the_official_filtered_list(data_folder):
    folder = data_folder / "WikiQACorpus"
    rows = [line.split() for line in (folder / "WikiQA-test.ref").read_text(encoding="utf-8").splitlines()]
    kept = [line.split() for line in (folder / "WikiQA-test-filtered.ref").read_text(encoding="utf-8").splitlines()]
    groups = np.array([row[0] for row in rows])
    documents = np.array([row[2] for row in rows])
    labels = np.array([int(row[3]) for row in rows])
    values = np.random.default_rng(0).normal(size=len(rows)).round(1)
    inside = np.isin(groups, [row[0] for row in kept])
    outside = ranking_scores(labels[~inside], values[~inside], groups[~inside], documents[~inside])
    assert math.isnan(outside["map"])
    got = ranking_scores(labels, values, groups, documents)
    assert got == pytest.approx(trec_eval(labels, values, groups, documents), rel=1e-12)
    for group in np.unique(groups[inside]):
        assert set(labels[groups == group]) == {0, 1}
