"""Intervals, tests and corrections equal hand-computed values and SciPy, and appear in tables and reports."""

import functools
import json
import math

import numpy as np
import pytest
from scipy import special, stats
from small_records import cells, record

from jaxmatch.reporting import statistics
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.table import make_table


def test_mean_and_deviation_of_undefined_scores_are_undefined():
    assert all(map(math.isnan, statistics.mean_and_deviation([0.5, math.inf, 0.7])))
    assert statistics.mean_and_deviation([math.nan])[1] is None


@pytest.mark.parametrize(("right", "count"), [(40, 40), (39, 40), (399, 493), (0, 5)])
def test_wilson_interval_equals_scipy(right, count):
    expected = stats.binomtest(right, count).proportion_ci(method="wilson")
    assert statistics.wilson(right / count, count) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("count", "seed"), [(4, 0), (9, 1), (200, 2)])
def test_fisher_interval_equals_scipy(count, seed):
    draws = np.random.default_rng(seed)
    first = draws.normal(size=count)
    found = stats.pearsonr(first, first + draws.normal(size=count))
    expected = found.confidence_interval(0.95)
    assert statistics.fisher(found.statistic, count) == pytest.approx((expected.low, expected.high))
    assert statistics.fisher(1.0, count) == pytest.approx((1.0, 1.0), abs=1e-3)


def test_difference_to_a_published_mean_equals_hand_computed_and_welch():
    values, others = [0.80, 0.82, 0.84], [0.85, 0.86, 0.88, 0.85]
    # The published number has no deviation. Our values have mean 0.82, deviation 0.02, t(2) = 4.303.
    margin = 4.3026527 * 0.02 / math.sqrt(3)
    assert statistics.to_published(values, 0.9) == pytest.approx((-0.08 - margin, -0.08 + margin), abs=1e-6)
    assert statistics.to_published(values, 0.9, 0.01) == statistics.to_published(values, 0.9)  # unused without count
    # With the number of runs, the interval is that of Welch's test on the runs.
    found = statistics.to_published(values, np.mean(others), np.std(others, ddof=1), len(others))
    expected = stats.ttest_ind(values, others, equal_var=False).confidence_interval(0.95)
    assert found == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert statistics.to_published([0.8], 0.9) is None and statistics.to_published([0.8, 0.8], 0.9) is None


def test_paired_and_welch_tests_equal_scipy():
    values, original = [0.7, 0.8, 0.75, 0.9], [0.65, 0.72, 0.74, 0.8]
    found = statistics.paired(values, original)
    assert (found.value, found.p_value) == pytest.approx((0.06, stats.ttest_rel(values, original).pvalue))
    assert statistics.paired([0.5], [0.4]) is None
    accuracies = np.array([801, 797, 815]) / 1002
    assert statistics.paired(accuracies + 7 / 1002, accuracies) is None  # equal up to rounding
    values, original = [1, 2, 3], [3, 4, 5, 8]
    found = statistics.welch(values, original)
    expected = stats.ttest_ind(values, original, equal_var=False).pvalue
    assert (found.value, found.p_value) == pytest.approx((-3, expected))


def test_holm_correction_equals_hand_computed_values():
    # Sorted 0.01, 0.02, 0.03, 0.2 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.2; no value is below the one before.
    assert statistics.holm([0.02, 0.2, 0.01, 0.03]) == pytest.approx([0.06, 0.2, 0.04, 0.06])
    assert statistics.holm([0.6, 0.7]) == [1.0, 1.0] and statistics.holm([]) == []


def power(test, seeds, *samples):
    """Returns the share of simulated experiments that find a difference."""
    generator = np.random.default_rng(0)
    drawn = (generator.normal(np.mean(each), np.std(each, ddof=1), (4_000, seeds)) for each in samples)
    return np.mean(test(*drawn).pvalue < 0.05)


def test_seeds_to_separate_gives_the_target_power():
    values, others = [0.80, 0.82, 0.84, 0.83], [0.79, 0.80, 0.82, 0.81]
    count = statistics.seeds_to_separate(values, others)
    welch = functools.partial(stats.ttest_ind, equal_var=False, axis=1)
    assert power(welch, count, values, others) == pytest.approx(0.8, abs=0.04)
    assert power(welch, count // 2, values, others) < 0.7
    assert statistics.seeds_to_separate(values, values) is None
    assert statistics.seeds_to_separate([0.5, 0.9], [0.5, 0.9001]) is None
    # t = 8, p = 0.079: two seeds are not enough, where SciPy has no value for the other tail.
    assert np.isnan(special.nctdtr(1.0, 8.0, -12.7))
    assert statistics.seeds_to_separate([0.07, 0.09], [0.0, 0.0]) == 3


@pytest.mark.parametrize(("values", "original"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], []), ([1.0, 1.0], [2.0, 2.0, 2.0])])
def test_welch_is_none_for_too_few_or_constant_values(values, original):
    assert statistics.welch(values, original) is None


LAYOUT = TableLayout("t", ("model.blocks",), scores=("dev.accuracy", "test.accuracy"))


def runs(blocks, values, **changes):
    return [
        record(blocks, seed=seed, dev={"accuracy": value}, test={"accuracy": value}, **changes)
        for seed, value in enumerate(values)
    ]


def test_p_values_of_a_column_are_corrected_for_multiple_tests():
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1})
    first, second = runs(1, (0.80, 0.82, 0.84)), runs(2, (0.70, 0.72, 0.74))
    alone = cells(make_table([*first, *second], layout))[2][-1]
    table = make_table([*first, *second, *runs(3, (0.81, 0.83, 0.82))], layout)
    beside = cells(table)
    assert alone == "−10.0 (p = 0.004)" and beside[2][-1] == "−10.0 (p = 0.007)"
    assert beside[3][-1] == "+0.0 (p = 1.000)"
    exported = json.loads(table.json())["rows"][1]
    assert exported["dev.accuracy.p_holm"] == pytest.approx(2 * exported["dev.accuracy.p_value"])


def test_caption_states_the_sampling_error_of_the_test_set():
    text = make_table([*runs(1, (0.80, 0.82)), *runs(2, (0.70, 0.72))], LAYOUT).markdown()
    assert "Sampling error of the best test accuracy: 81.0%, 95% interval 79.9 to 82.1 (4,927 pairs)" in text
    perfect = make_table(runs(1, (1.0, 1.0), data=record()["data"] | {"test": 49_270}), LAYOUT).markdown()
    assert "Sampling error" not in perfect  # "100.0 to 100.0"
    # A table without test scores states the error of dev.
    dev = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))
    text = make_table(runs(1, (0.80, 0.82)), dev).markdown()
    assert "Sampling error of the best dev accuracy: 81.0%, 95% interval 77.3 to 84.2 (500 pairs)" in text
    # So does a table of runs whose test labels are not public.
    unscored = [{**one, "test": None} for one in runs(1, (0.80, 0.82))]
    assert make_table(unscored, LAYOUT).markdown().count("Sampling error of the best dev accuracy: 81.0%") == 1
    ranking = TableLayout("t", ("model.blocks",), scores=("dev.accuracy", "test.mrr"))
    assert "Sampling error" not in make_table([record(seed=seed) for seed in (1, 2)], ranking).markdown()


def test_paired_table_uses_a_paired_t_test():
    """The change is small and similar for each seed; the spread over the seeds is larger."""
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1}, paired=True)
    first, second = (0.70, 0.75, 0.80, 0.85), (0.71, 0.761, 0.812, 0.86)
    found = [*runs(1, first), *runs(2, second)]
    (changed,) = (row[-1] for row in cells(make_table(found, layout))[2:])
    p_value = stats.ttest_rel(second, first).pvalue
    assert p_value < 0.001 and changed == r"+1.1 (p \< 0.001)"
    text = make_table(found, layout).markdown()
    assert "; p: paired t-test, two-sided, over the seeds that both have" in text
    exported = json.loads(make_table(found, layout).json())["rows"][1]
    assert exported["dev.accuracy.p_value"] == pytest.approx(p_value)
    fewer = cells(make_table([*runs(1, first), *runs(2, second)[1:]], layout))[2][-1]
    assert fewer.endswith(f"(p = {stats.ttest_rel(second[1:], first[1:]).pvalue:.3f})")


def test_paired_table_shows_the_difference_that_it_tests():
    """Over all seeds, two blocks have the better mean. Over the three seeds that both have, they are clearly worse."""
    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",), original={"model.blocks": 1}, paired=True)
    original, more = (0.85, 0.861, 0.849), (0.80, 0.81, 0.80, 0.95, 0.96, 0.95)
    table = make_table([*runs(1, original), *runs(2, more)], layout)
    difference = 100 * (np.mean(more[:3]) - np.mean(original))
    assert cells(table)[2][-1].startswith(f"−{-difference:.1f} (p")
    text = table.markdown()
    assert "Bold" not in text


def test_data_sets_of_equal_name_but_different_files_are_not_compared():
    """The files of training may differ, because no score depends on them."""

    def of(directory, values, blocks):
        files = {"train": f"for {blocks} blocks", "dev": directory}
        data = record()["data"] | {"name": "own", "fingerprint": directory, "files": files}
        changes = {"data": data, "config": {"data": {"directory": directory}, "model": {"name": "re2"}}}
        return runs(blocks, values, **changes)

    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))
    first, second = (0.80, 0.82, 0.84), (0.70, 0.72, 0.74)
    same = make_table([*of("a", first, 1), *of("a", second, 2)], layout).markdown()
    assert "Bold" in same and "Sampling error of the best dev accuracy: 82.0%" in same
    text = make_table([*of("a", first, 1), *of("b", second, 2)], layout).markdown()
    assert "Bold" not in text and "Sampling" not in text


def test_caption_states_the_sampling_error_of_a_ranking():
    layout = TableLayout("t", ("model.blocks",), scores=("test.map", "test.mrr"))

    def caption(*changes):
        scores = {"accuracy": 0.9, "map": 0.72, "mrr": 0.75}
        records = [record(1, seed=seed, test=scores) | one for seed, one in enumerate(changes)]
        return make_table(records, layout).markdown()

    first, second = (
        {"test_sampling": {"questions": 243, "deviations": {"map": 0.36 + more, "mrr": 0.4}}} for more in (0, 0.04)
    )
    # 1.96 * 0.38 / sqrt(243) = 0.0478, and 1.96 * 0.4 / sqrt(243) = 0.0503.
    note = "best test scores: MAP 0.7200 ± 0.0478 and MRR 0.7500 ± 0.0503 (95% interval, 243 questions), in addition to"
    assert note in caption(first, second)
    assert "questions)" not in caption(first, {})  # a record of an older version
    for questions in (0, 1):  # with right and wrong answers
        undefined = {"test_sampling": {"questions": questions, "deviations": {"map": None, "mrr": None}}}
        assert "questions)" not in caption(undefined)


@pytest.mark.parametrize(
    ("curves", "note"),
    [
        ([(4500, 9000), (4500,)], "Best at the last evaluation: 1 of 2 runs, which had 1 to 2 evaluations."),
        ([(4500, 9000), (4500, 9000)], "Best at the last evaluation: 0 of 2 runs, which had 2 evaluations."),
        ([(4500,), (4500,)], "Best at the last evaluation: 2 of 2 runs, which had 1 evaluation."),
        ([(4500,), ()], ""),  # a record without a curve
    ],
)
def test_caption_counts_runs_that_were_best_at_the_last_evaluation(curves, note):
    curves = [[{"samples": samples} for samples in curve] for curve in curves]
    text = make_table([record(1, seed=seed, curve=curve) for seed, curve in enumerate(curves)], LAYOUT).markdown()
    assert note in text and ("Best at the last" in text) == bool(note)
