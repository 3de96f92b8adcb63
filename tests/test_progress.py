import math

from jaxmatch.training.progress import RunProgress


def entry(samples, score):
    return {"samples": samples, "dev": {"accuracy": score}}


def test_the_first_of_equal_scores_is_kept_and_patience_counts_from_it():
    progress = RunProgress()
    better = [
        progress.record_evaluation(entry(n, score), score, True, 30)
        for n, score in ((10, 0.5), (20, 0.7), (30, 0.7), (40, 0.6))
    ]
    assert better == [True, True, False, False]
    assert (progress.best_at, progress.best, progress.stopped) == (20, {"accuracy": 0.7}, False)
    assert not progress.record_evaluation(entry(50, 0.69), 0.69, True, 30)
    assert progress.stopped and progress.done
    assert len(progress.curve) == 5


def test_patience_stops_only_after_the_minimum_samples():
    progress = RunProgress()
    for samples in (10, 40, 50):
        progress.record_evaluation(entry(samples, 0.5), 0.5, True, 30, minimum_samples=50)
    assert not progress.stopped
    assert progress.record_evaluation(entry(60, 0.6), 0.6, True, 30, minimum_samples=50) and not progress.stopped
    progress.record_evaluation(entry(90, 0.5), 0.5, True, 30, minimum_samples=50)
    assert progress.stopped


def test_lower_may_be_better():
    progress = RunProgress()
    assert [progress.record_evaluation(entry(n, s), s, False, 0) for n, s in ((1, 3.0), (2, 2.0), (3, 2.5))] == [
        True,
        True,
        False,
    ]
    assert not progress.stopped  # no patience is set


def test_any_score_is_better_than_nan():
    progress, nan = RunProgress(), float("nan")
    scores = ((1, nan), (2, nan), (3, 0.1), (4, nan))
    assert [progress.record_evaluation(entry(n, s), s, True, 0) for n, s in scores] == [True, False, True, False]
    assert progress.best_score == 0.1


def test_patience_counts_from_the_first_of_undefined_scores():
    progress = RunProgress()
    for samples in (10, 20, 30):
        progress.record_evaluation(entry(samples, math.nan), math.nan, False, 20)
    assert progress.stopped and progress.best_at == 10


def test_best_on_test_is_the_first_of_equal_scores_and_ignores_nan():
    progress, nan = RunProgress(), float("nan")
    for samples, score in ((1, nan), (2, 0.4), (3, 0.6), (4, 0.6), (5, nan)):
        progress.record_test({"mrr": score, "map": samples / 10}, "mrr", True, samples)
    assert progress.best_on_test == {"scores": {"mrr": 0.6, "map": 0.3}, "at_samples": 3}
    assert not progress.curve and progress.best_score is None  # test chooses no checkpoint
