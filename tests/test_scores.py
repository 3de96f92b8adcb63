"""Scores equal those of independent implementations (scikit-learn, SciPy, trec_eval), even for ties and edge cases."""

import math
import warnings

import numpy as np
import pytest
import pytrec_eval
import scipy.stats
import sklearn.metrics
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jaxmatch.config.settings import SCORES
from jaxmatch.data import catalog
from jaxmatch.training import scores
from jaxmatch.training.evaluation import mean_loss
from jaxmatch.training.scores import ranking_deviations, ranking_scores

QUICK = settings(max_examples=50, deadline=None)
# Few distinct values, so that ties are common; the last two differ in float64 but not in float32.
COARSE = st.sampled_from([-1.5, -1.0, 0.0, 0.25, 1.0, 1.0 + 1e-12])


def columns(*entries, least=1, most=30):
    """Draws lists of the same length, one for each strategy, as arrays."""
    return st.lists(st.tuples(*entries), min_size=least, max_size=most).map(
        lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
    )


@QUICK
@given(columns(st.integers(0, 3), st.integers(0, 3)))
def test_class_scores_equal_scikit_learn(case):
    labels, predictions = case
    assert scores.macro_f1(labels, predictions) == pytest.approx(
        sklearn.metrics.f1_score(labels, predictions, average="macro", zero_division=0)
    )
    for positive in range(4):
        assert scores.f1(labels, predictions, positive) == pytest.approx(
            sklearn.metrics.f1_score(labels == positive, predictions == positive, zero_division=0)
        )


@QUICK
@given(columns(st.integers(0, 1), COARSE))
def test_max_f1_is_the_best_point_of_the_precision_recall_curve_of_scikit_learn(case):
    labels, values = case
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No positive class found")
        precision, recall, _ = sklearn.metrics.precision_recall_curve(labels, values)
    curve = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    assert scores.max_f1(labels, values) == pytest.approx(curve.max() if labels.any() else 0.0)


@QUICK
@given(columns(st.integers(0, 1), COARSE, least=2))
def test_auc_equals_scikit_learn(case):
    labels, values = case
    if np.ptp(labels) == 0:
        assert math.isnan(scores.auc(labels, values))
    else:
        assert scores.auc(labels, values) == pytest.approx(sklearn.metrics.roc_auc_score(labels, values))


@QUICK
@given(columns(st.sampled_from([1.0, 2.5, 3.0, 4.9]), st.sampled_from([-2.0, 0.5, 1.0, 7.0]), least=2))
def test_correlations_equal_scipy(case):
    labels, predictions = case
    assume(np.ptp(labels) > 0 and np.ptp(predictions) > 0)
    assert scores.pearson(labels, predictions) == pytest.approx(scipy.stats.pearsonr(labels, predictions)[0])
    assert scores.spearman(labels, predictions) == pytest.approx(scipy.stats.spearmanr(labels, predictions)[0])


NAMES = {2: ("0", "1"), 3: ("entailment", "neutral", "contradiction")}


def call(task, labels, outputs, classes=2, **keywords):
    if task == "ranking":
        keywords.setdefault("groups", [0] * len(labels))
    names = () if task == "regression" else NAMES[classes]
    return scores.score(task, labels, np.asarray(outputs, np.float32), label_names=names, **keywords)


@QUICK
@given(
    st.sampled_from(["classification", "ranking", "regression"]),
    st.integers(1, 4),
    st.sampled_from([1, 2, 5, 40, 300]),
    st.sampled_from([2, 3, 11]),
    st.sampled_from([0, 1, 9]),
    st.integers(0, 2**32 - 1),
)
def test_scores_of_several_runs_equal_those_of_each(task, runs, pairs, classes, digits, seed):
    random = np.random.default_rng(seed)
    classes = {"ranking": 2, "regression": 1}.get(task, classes)
    labels = random.integers(0, max(2, classes), pairs).astype(np.float32 if task == "regression" else np.int32)
    outputs = random.normal(size=(runs, pairs, classes)).round(digits).astype(np.float32)
    outputs[:, :, random.random(classes) < 0.2] = -5.0  # classes that are never predicted
    outputs[0][:: pairs + 1] = random.choice([0.0, np.nan, -np.inf])
    extra = {"groups": random.integers(0, 1 + pairs // 6, pairs), "documents": random.integers(0, 5, pairs).astype(str)}
    extra = extra if task == "ranking" else {}
    names = () if task == "regression" else [str(c) for c in range(classes)]
    together = scores.scores_of_runs(task, labels, outputs, label_names=names, **extra)
    losses = mean_loss(task, outputs[1:], labels)
    assert losses.tolist() == [mean_loss(task, one, labels) for one in outputs[1:]]
    for one, found in zip(outputs, together, strict=True):
        np.testing.assert_equal(found, scores.score(task, labels, one, label_names=names, **extra))


def test_scores_of_each_task_equal_hand_computed_values():
    two = call("classification", [0, 1, 1, 0], [[2, 1], [0, 3], [1, 0], [0, 0.5]])
    # Predictions 0 1 0 1; logit differences -1 3 -1 0.5.
    assert two == pytest.approx({"accuracy": 0.5, "macro_f1": 0.5, "f1": 0.5, "max_f1": 2 / 3, "auc": 2.5 / 4})
    three = call("classification", [0, 1, 2], [[5, 1, 0], [0, 3, 1], [1, 0, 0]], classes=3)
    assert three == pytest.approx({"accuracy": 2 / 3, "macro_f1": (2 / 3 + 1 + 0) / 3})
    recall = {"recall_at_1": 0.0, "recall_at_2": 0.5, "recall_at_5": 1.0}
    recall |= {"precision_at_1": 0.0, "ndcg": (1 / np.log2(3) + 1 / np.log2(4)) / (1 + 1 / np.log2(3))}
    expected = {"map": (1 / 2 + 2 / 3) / 2, "mrr": 0.5, "accuracy": 1 / 3, "auc": 0.0} | recall
    assert call("ranking", [0, 1, 1], [[0, 3], [0, 2], [0, -1]]) == pytest.approx(expected)
    labels = np.array([1.0, 2.0, 4.0], np.float32)
    for outputs in ([3.0, 2.0, 0.0], [[3.0], [2.0], [0.0]]):
        expected = {"pearson": -1.0, "spearman": -1.0, "mse": (4 + 0 + 16) / 3}
        assert call("regression", labels, outputs) == pytest.approx(expected)


def test_twitter_url_labels_come_from_votes_and_f1_counts_paraphrases(tmp_path):
    """F1 counts the label of the pairs that most annotators called paraphrases."""
    folder = tmp_path / "Twitter_URL_Corpus"
    folder.mkdir()
    votes = [6, 5, 4, 4, 2, 0]
    lines = "".join(f"it rains {n} \tRain {n} ! \t({vote},6)\thttps://t.co/{n}\n" for n, vote in enumerate(votes))
    for part in ("train", "test"):
        (folder / f"Twitter_URL_Corpus_{part}.txt").write_text(lines)
    data = catalog.load_split("twitter_url", tmp_path, "test")
    names = catalog.CATALOG["twitter_url"].labels
    labels = np.array([names.index(label) for label in data.labels])
    assert labels.tolist() == [1, 1, 1, 1, 0, 0]
    all_alike = np.tile([0.0, 1.0], (6, 1))
    found = scores.score("classification", labels, all_alike, label_names=names)
    assert found["f1"] == pytest.approx(2 * 4 / (4 + 6)) and found["accuracy"] == pytest.approx(4 / 6)
    assert scores.score("classification", labels, -all_alike, label_names=names)["f1"] == 0.0
    assert found["max_f1"] == pytest.approx(0.8)


def test_auc_uses_logits_when_probabilities_saturate():
    # In float32 both probabilities of label 1 are exactly 1, but their logits differ.
    assert call("classification", [0, 1], [[0, 200], [0, 300]])["auc"] == 1.0


@pytest.mark.parametrize("task", ["classification", "ranking", "regression"])
def test_non_finite_outputs_and_no_pairs_give_nan_for_every_score(task):
    for bad in (np.nan, np.inf, -np.inf):
        outputs = np.zeros((4, 1 if task == "regression" else 2), np.float32)
        good = call(task, np.array([0, 1, 0, 1]), outputs)
        outputs[2, 0] = bad
        broken = call(task, np.array([0, 1, 0, 1]), outputs)
        assert broken.keys() == good.keys() == set(scores.score_names(task)) <= SCORES.keys()
        assert all(map(math.isnan, broken.values()))
        assert not any(map(math.isnan, good.values()))
    empty = call(task, np.zeros(0, np.int32), outputs[:0])
    assert empty.keys() == good.keys() and all(map(math.isnan, empty.values()))


def test_lower_is_better_only_for_mse_and_loss():
    assert {name for name, score in SCORES.items() if not score.higher_is_better} == {"mse", "loss"}


def test_undefined_scores_are_nan_and_constant_predictions_do_not_correlate():
    alike = call("classification", [1, 1, 1], np.zeros((3, 2)))
    assert math.isnan(alike.pop("auc"))
    assert alike == {"accuracy": 0.0, "f1": 0.0, "max_f1": 1.0, "macro_f1": 0.0}
    assert call("classification", [0, 1, 1], np.zeros((3, 2)))["auc"] == 0.5
    only_right = call("ranking", [1, 1], np.zeros((2, 2)))
    assert math.isnan(only_right["map"]) and math.isnan(only_right["mrr"])
    # 0.1 summed ten times is not 1, so whether outputs are constant must not depend on rounded sums.
    constant = call("regression", np.arange(10.0), np.full(10, 0.1))
    assert constant["pearson"] == constant["spearman"] == 0.0
    same_labels = call("regression", np.full(10, 0.1), np.arange(10.0))
    assert math.isnan(same_labels["pearson"]) and math.isnan(same_labels["spearman"])
    assert math.isnan(call("regression", [1.0], [2.0])["pearson"])


@pytest.mark.parametrize("scale", [1e-40, 1e-3, 1e38])
def test_tiny_and_huge_predictions_correlate_without_warning(scale):
    outputs = np.array([1.0, 2.0, 3.0], np.float32) * np.float32(scale)
    assert call("regression", [1.0, 2.0, 3.0], outputs)["pearson"] == pytest.approx(1.0)
    huge = np.array([[-1.0, 1.0], [1.0, -1.0]]) * np.finfo(np.float32).max
    assert call("ranking", [1, 0], huge)["mrr"] == 1.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_infinite_outputs_have_no_finite_loss_and_no_warning(task):
    assert not np.isfinite(mean_loss(task, np.full((1, 2, 2), np.inf, np.float32), np.array([0, 1])))


def trec_eval(labels, values, groups, documents):
    """Means of trec_eval's measures over the groups with right and wrong candidates, by our names, from grades."""
    relevance: dict = {}
    run: dict = {}
    for label, value, group, document in zip(labels, values, groups, documents, strict=True):
        relevance.setdefault(str(group), {})[str(document)] = int(label)
        run.setdefault(str(group), {})[str(document)] = float(value)
    relevance = {group: found for group, found in relevance.items() if 0 in found.values() and any(found.values())}
    measures = {"map": "map", "mrr": "recip_rank", **{f"recall_at_{k}": f"recall_{k}" for k in scores.RECALL_AT}}
    measures |= {"precision_at_1": "P_1", "ndcg": "ndcg"}
    names = {"map", "recip_rank", "recall.1,2,5", "P.1", "ndcg"}
    judged = pytrec_eval.RelevanceEvaluator(relevance, names).evaluate(run).values()
    return {name: np.mean([j[measure] for j in judged]) if judged else math.nan for name, measure in measures.items()}


@QUICK
@given(
    columns(st.integers(0, 3), COARSE, st.sampled_from(["q3", "q10", "ä"]), most=40),
    st.randoms(use_true_random=False),
)
def test_ranking_scores_equal_trec_eval(case, random):
    labels, values, groups = case
    # "D1-10" sorts before "D1-9": names are compared as text.
    names = [f"D{n % 2}-{n}" for n in range(labels.size)]
    random.shuffle(names)
    documents = np.array(names)
    expected = trec_eval(labels, values, groups, documents)
    for named in (groups, np.unique(groups, return_inverse=True)[1].astype(np.int32)):
        found = ranking_scores(labels, values, named, documents)
        assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_ranking_scores_equal_hand_computed_values():
    # First question: ranks are wrong, right, wrong, right. Second: right first. The others do not count.
    labels = [1, 0, 1, 0, 1, 0, 1, 1, 0]
    values = [0.7, 0.9, 0.1, 0.5, 3.0, 2.0, 1.0, 1.0, 1.0]
    groups = [0, 0, 0, 0, 1, 1, 2, 2, 3]
    got = {"map": ((1 / 2 + 2 / 4) / 2 + 1) / 2, "mrr": (1 / 2 + 1) / 2, "recall_at_1": (0 + 1) / 2}
    got |= {"recall_at_2": (1 / 2 + 1) / 2, "recall_at_5": 1.0}
    found = ranking_scores(labels, values, groups)
    assert {name: found[name] for name in got} == pytest.approx(got)
    # This includes the third question, which has only right candidates, but not the fourth, which has none.
    whole = ranking_scores(labels, values, groups, filtered=False)
    assert (whole["map"], whole["mrr"]) == pytest.approx((((1 / 2 + 2 / 4) / 2 + 2.0) / 3, (1 / 2 + 2.0) / 3))
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


@pytest.mark.parametrize("labels", [[1, 0, 0], [0, 0, 1]])
@pytest.mark.parametrize("documents", [None, ["x", "x", "x"]])
def test_constant_scores_rank_the_right_candidate_last_in_any_order(labels, documents):
    assert ranking_scores(labels, [2.0] * 3, [0] * 3, documents)["map"] == pytest.approx(1 / 3)
