"""The worst predictions of a run, compared with hand-written examples."""

import dataclasses
import json

import numpy as np
import pytest
import small_sweep
from hypothesis import given
from hypothesis import strategies as st
from small_cohort import make_data

from jaxmatch.training.evaluation import MOST_CHARACTERS, MOST_PAIRS, mistakes
from jaxmatch.training.scores import candidate_ranks, ranking_scores

LOW, HIGH = -5.0, 5.0


def dev(task, labels, texts=None, **changes):
    """Returns a data set whose dev split has these labels. Pair i consists of word i + 2 and word i + 3."""
    data, count = make_data(task), len(labels)
    first = [np.full(length, row + 2, np.int32) for row, length in enumerate(texts or [1] * count)]
    split = dataclasses.replace(
        data.splits["dev"],
        tokens_a=np.concatenate(first),
        offsets_a=np.cumsum([0, *map(len, first)]),
        tokens_b=np.arange(3, count + 3, dtype=np.int32),
        offsets_b=np.arange(count + 1),
        labels=np.array(labels, np.float32 if task == "regression" else np.int32),
        **changes,
    )
    return dataclasses.replace(data, splits={**data.splits, "dev": split})


def test_wrong_classes_are_sorted_by_confidence_with_a_confusion_matrix():
    outputs = np.array([[HIGH, LOW], [LOW, HIGH], [0.0, 1.0], [0.0, 3.0], [2.0, 0.0]])
    found = mistakes(dev("classification", [0, 1, 0, 0, 1]), outputs)
    assert (found["task"], found["split"], found["pairs"], found["labels"]) == ("classification", "dev", 5, ["0", "1"])
    assert found["confusion"] == [[1, 2], [1, 1]]  # row: label; column: answer
    assert [(row["text_a"], row["text_b"], row["label"], row["answer"]) for row in found["worst"]] == [
        ("w5", "w6", "0", "1"),
        ("w6", "w7", "1", "0"),
        ("w4", "w5", "0", "1"),
    ]
    sigmoid = [1 / (1 + np.exp(-margin)) for margin in (3, 2, 1)]
    assert [row["probability"] for row in found["worst"]] == pytest.approx(sigmoid, abs=1e-4)
    json.dumps(found)  # must not fail: all values are plain


def test_at_most_twenty_mistakes_are_kept_with_truncated_texts():
    data = dev("classification", [0] * 25, texts=[1] * 24 + [1000])
    found = mistakes(data, np.stack([np.zeros(25), np.arange(25.0)], axis=1))
    assert len(found["worst"]) == MOST_PAIRS == 20 and found["confusion"] == [[1, 24], [0, 0]]
    text = found["worst"][0]["text_a"]
    assert len(text) == MOST_CHARACTERS and text.startswith("w26 w26") and text.endswith("…")


def test_the_largest_errors_of_a_regression_come_first():
    found = mistakes(dev("regression", [1.0, 2.0, 3.0]), np.array([[1.5], [0.0], [3.1]]))
    assert [(row["text_a"], row["label"], row["answer"]) for row in found["worst"]] == [
        ("w3", 2.0, 0.0),
        ("w2", 1.0, 1.5),
        ("w4", 3.0, 3.1),
    ]
    assert "confusion" not in found


def test_the_questions_whose_right_candidate_ranks_lowest_come_first():
    groups = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3], np.int32)
    labels = [1, 0, 0, 0, 1, 0, 1, 1, 0, 1]
    # The first right candidates rank 1, 2 and 3; group 3 has no wrong one.
    scores = np.array([3.0, 1, 2, 5, 4, 9, 7, 6, 8, 0])
    found = mistakes(dev("ranking", labels, groups=groups), np.stack([np.zeros(10), scores], axis=1))
    assert [(row["text_b"], row["rank"], row["candidates"], row["preferred"]) for row in found["worst"]] == [
        ("w9", 3, 4, "w8"),
        ("w7", 2, 2, "w6"),
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 2)), min_size=1, max_size=12))
def test_candidate_ranks_agree_with_the_mean_reciprocal_rank(pairs):
    groups, labels, scores = (np.array(each) for each in zip(*pairs, strict=True))
    ranks = candidate_ranks(labels, scores, groups)
    best = [ranks[(groups == group) & labels].min() for group in np.unique(groups[labels])]
    mrr = ranking_scores(labels, scores.astype(float), groups, filtered=False)["mrr"]
    np.testing.assert_allclose(mrr, np.mean(1 / np.array(best)) if best else np.nan)


def test_non_finite_outputs_give_no_mistakes():
    assert mistakes(dev("regression", [1.0]), np.array([[np.nan]])) is None


@pytest.mark.slow
def test_each_finished_run_writes_mistakes_json_next_to_its_record(finished_sweep):
    for run, record in small_sweep.records(finished_sweep[0]).items():
        file = finished_sweep[0] / "runs" / run / "mistakes.json"
        assert file.exists() == (record["status"] == "finished")
        if file.exists():
            found = json.loads(file.read_text())
            counts = np.array(found["confusion"])
            assert counts.sum() == found["pairs"] == record["data"]["dev"]
            # Of the chosen checkpoint.
            assert np.trace(counts) / counts.sum() == pytest.approx(record["dev"]["accuracy"])
            assert len(found["worst"]) == min(MOST_PAIRS, counts.sum() - np.trace(counts))
