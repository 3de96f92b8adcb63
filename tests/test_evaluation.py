"""When runs are evaluated, in which compiled shapes, and that outputs have the order of the split."""

import dataclasses
import math

import jax
import numpy as np
import pytest
import small_cohort

from jaxmatch.training.evaluation import Evaluator, evaluation_shapes, times
from jaxmatch.training.progress import RunProgress


def first_words(static, parameters, tokens, sentences, vectors):
    """Stands in for a compiled program. Returns the first id of each pair and the number of its tokens."""
    assert (tokens["ids"].shape == sentences.shape) and ((tokens["ids"] > 0) == (sentences > 0)).all()
    evaluated_shapes.append(tokens["ids"].shape)
    return np.stack([tokens["ids"][:, 0], (sentences > 0).sum(axis=1)], axis=1)[None].astype(np.float32)


first_words.compile_seconds = 0.0
first_words.compile_ahead = lambda calls: None
evaluated_shapes: list[tuple[int, int]] = []


def test_splits_of_different_sizes_and_lengths_share_compiled_shapes():
    long, short = small_cohort.make_split(30, 2), small_cohort.make_split(9, 3)
    assert long.lengths.max() != short.lengths.max()
    data = dataclasses.replace(small_cohort.make_data(), splits={"dev": long, "test": short})
    shapes, parameters = [], jax.numpy.zeros((1, 0))
    evaluator = Evaluator(data, first_words, lambda tree: tree, None, batch_size=8, maximum_buckets=2)
    for name, split in data.splits.items():
        evaluated_shapes.clear()
        outputs = evaluator.outputs(name, parameters, 1)
        np.testing.assert_array_equal(outputs[0, :, 0], split.tokens_a[split.offsets_a[:-1]])
        np.testing.assert_array_equal(outputs[0, :, 1], split.lengths)
        shapes.append(set(evaluated_shapes))
    buckets, rows = evaluation_shapes(data.splits, batch_size=8, maximum_buckets=2)
    assert shapes[1] <= shapes[0] == set(zip(rows, buckets, strict=True))


def test_fillers_are_not_counted_in_evaluated_pairs():
    cohort = small_cohort.make_cohort(seeds=(1, 2, 3))
    parameters = small_cohort.started(cohort).parameters
    cohort.evaluator.outputs("dev", parameters, 2)  # the third slot counts as a filler
    assert cohort.evaluator.totals["pairs"] == 2 * 30 and cohort.evaluator.totals["seconds"] > 0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [40, 80, 120]),
        ({"evaluate_every_samples": 50}, [50, 100, 120]),
        ({"evaluate_every_samples": 35}, [40, 70, 110, 120]),  # the step that reaches each multiple
        ({"evaluate_every_samples": 50, "evaluate_each_epoch": True}, [40, 50, 80, 100, 120]),
        ({"evaluate_every_samples": 100}, [100, 120]),
        ({"evaluate_every_samples": 1000}, [120]),  # the end of training is always evaluated
        # Like the released SNLI run: evaluations are rare at first and frequent later.
        (
            {
                "evaluate_every_samples": 50,
                "evaluate_each_epoch": True,
                "late_from_samples": 70,
                "evaluate_every_samples_late": 10,
            },
            [40, 50, 80, 90, 100, 110, 120],
        ),
        ({"evaluate_every_samples_late": 30}, [30, 40, 60, 80, 90, 120]),
        ({"evaluate_every_samples": 10, "evaluate_every_samples_late": 100}, [100, 120]),
        # One step passes an early evaluation and the start of the late phase, or that start and a late evaluation.
        ({"evaluate_every_samples": 25, "late_from_samples": 25, "evaluate_every_samples_late": 70}, [30, 70, 120]),
        (
            {"evaluate_every_samples": 100, "late_from_samples": 33, "evaluate_every_samples_late": 36},
            [40, 80, 110, 120],
        ),
    ],
)
def test_evaluations_are_due_at_the_expected_samples(settings, expected):
    """In three epochs of 40 pairs, in steps of ten."""
    never = dict.fromkeys(("evaluate_every_samples", "late_from_samples", "evaluate_every_samples_late"), 0)
    training = {"epochs": 3, "evaluate_each_epoch": False} | never | settings
    assert times(training, 40, steps=4) == expected
    assert times(training, 40, steps=1)[0] == -(-expected[0] // 40) * 40  # the end of that epoch


NAN = math.nan


@pytest.mark.parametrize(
    ("scores", "selection", "patience", "minimum", "better", "stopped_at"),
    [
        ((0.5, 0.7, 0.7, 0.6, 0.69), "accuracy", 30, 0, [1, 1, 0, 0, 0], 50),  # the first of equal scores is kept
        ((0.5,) * 7, "accuracy", 20, 50, [1, 0, 0, 0, 0, 0, 0], 60),  # only after the minimum of samples
        ((0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6), "accuracy", 20, 50, [1, 0, 0, 0, 0, 1, 0], None),
        ((3.0, 2.0, 2.5), "loss", 0, 0, [1, 1, 0], None),  # lower may be better; no patience is set
        ((NAN, NAN, 0.1, NAN), "accuracy", 0, 0, [1, 0, 1, 0], None),  # any score is better than NaN
        ((NAN, NAN, NAN), "loss", 20, 0, [1, 0, 0], 30),
    ],
)
def test_the_best_evaluation_is_kept_and_patience_counts_from_it(
    scores, selection, patience, minimum, better, stopped_at
):
    progress, found, stopped = RunProgress(), [], []
    training = {"selection": selection, "patience_samples": patience, "minimum_samples": minimum}
    for number, score in enumerate(scores, 1):
        entry = {"samples": 10 * number, "dev": {selection: score}}
        found.append(progress.record_evaluation(entry, training))
        stopped += [10 * number] * progress.stopped
    assert found == better and progress.done == progress.stopped and len(progress.curve) == len(scores)
    assert stopped[:1] == [stopped_at] * (stopped_at is not None)
    best = max(number for number, one in enumerate(better) if one)
    np.testing.assert_equal((progress.best_at, progress.best), (10 * best + 10, {selection: scores[best]}))


def test_best_on_test_is_the_first_of_equal_scores_and_ignores_nan():
    progress, nan = RunProgress(), NAN
    for samples, score in ((1, nan), (2, 0.4), (3, 0.6), (4, 0.6), (5, nan)):
        progress.record_test({"mrr": score, "map": samples / 10}, "mrr", samples)
    assert progress.best_on_test == {"scores": {"mrr": 0.6, "map": 0.3}, "at_samples": 3}
    assert not progress.curve and progress.best_score is None  # test chooses no checkpoint
