"""Intervals, tests and corrections equal hand-computed values and SciPy, and appear in tables and reports."""

import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats
from small_records import cells, record

from jaxmatch.reporting import statistics
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.records import SweepFolder, read_sweep_folder
from jaxmatch.reporting.report import certainty
from jaxmatch.reporting.table import make_table


def test_mean_interval_equals_hand_computed_value():
    # Mean 3, variance (4 + 1 + 0 + 1 + 4) / 4 = 2.5; t of 4 degrees at 97.5% is 2.776 in any printed table.
    interval = statistics.mean_interval([1, 2, 3, 4, 5])
    margin = 2.7764451 * math.sqrt(2.5 / 5)
    assert (interval.mean, interval.count) == (3.0, 5)
    assert interval.lower == pytest.approx(3 - margin, abs=1e-6)
    assert interval.upper == pytest.approx(3 + margin, abs=1e-6)


@pytest.mark.parametrize(
    ("lower", "upper", "higher_is_better", "rounding", "verdict"),
    [
        (-0.05, 0.05, True, 0.0, "covers"),
        (0.0, 0.1, True, 0.0, "covers"),  # an end belongs to the interval
        (-0.1, 0.0, True, 0.0, "covers"),
        (0.01, 0.11, True, 0.0, "beats"),
        (0.01, 0.11, True, 0.01, "covers"),
        (-0.11, -0.01, True, 0.0, "misses"),
        (0.01, 0.11, False, 0.0, "misses"),
        (-0.11, -0.01, False, 0.0, "beats"),
    ],
)
def test_published_numbers_are_beaten_missed_or_covered(lower, upper, higher_is_better, rounding, verdict):
    assert statistics.judge(lower, upper, higher_is_better, rounding) == verdict


@pytest.mark.parametrize("undefined", [math.nan, math.inf])
def test_mean_and_deviation_of_undefined_scores_are_undefined(undefined):
    mean, deviation = statistics.mean_and_deviation([0.5, undefined, 0.7])
    assert math.isnan(mean) and math.isnan(deviation)
    mean, deviation = statistics.mean_and_deviation([undefined])
    assert math.isnan(mean) and deviation is None


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
    test = statistics.welch(values, others)
    assert found == pytest.approx((test.lower, test.upper), rel=1e-9)
    assert statistics.to_published([0.8], 0.9) is None and statistics.to_published([0.8, 0.8], 0.9) is None


def test_paired_test_equals_hand_computed_values():
    values, original = [0.7, 0.8, 0.75, 0.9], [0.65, 0.72, 0.74, 0.8]
    # Differences 0.05, 0.08, 0.01, 0.1: mean 0.06, variance (1 + 4 + 25 + 16) 1e-4 / 3; t(3) at 97.5% is 3.182.
    error = math.sqrt(46e-4 / 3 / 4)
    found = statistics.paired(values, original)
    assert (found.difference, found.statistic) == pytest.approx((0.06, 0.06 / error))
    assert (found.lower, found.upper) == pytest.approx((0.06 - 3.1824463 * error, 0.06 + 3.1824463 * error))
    assert (found.degrees_of_freedom, found.p_value) == pytest.approx((3, 2 * stats.t.sf(0.06 / error, 3)))
    assert statistics.paired([0.5], [0.4]) is None
    accuracies = np.array([801, 797, 815]) / 1002
    assert statistics.paired(accuracies + 7 / 1002, accuracies) is None  # equal up to rounding
    with pytest.raises(ValueError):
        statistics.paired([0.5, 0.6], [0.5])


def test_holm_correction_equals_hand_computed_values():
    # Sorted 0.01, 0.02, 0.03, 0.2 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.2; no value is below the one before.
    assert statistics.holm([0.02, 0.2, 0.01, 0.03]) == pytest.approx([0.06, 0.2, 0.04, 0.06])
    assert statistics.holm([0.6, 0.7]) == [1.0, 1.0] and statistics.holm([]) == []


def test_seeds_to_separate_gives_the_target_power():
    values, others = [0.80, 0.82, 0.84, 0.83], [0.79, 0.80, 0.82, 0.81]
    count = statistics.seeds_to_separate(values, others)
    generator = np.random.default_rng(0)

    def power(seeds):
        drawn = (generator.normal(np.mean(each), np.std(each, ddof=1), (2_000, seeds)) for each in (values, others))
        return np.mean(stats.ttest_ind(*drawn, equal_var=False, axis=1).pvalue < 0.05)

    assert power(count) == pytest.approx(0.8, abs=0.04) and power(count // 2) < 0.7
    assert statistics.seeds_to_separate(values, others, 0.05 / 4) > count
    assert statistics.seeds_to_separate(values, values) is None
    assert statistics.seeds_to_separate([0.8, 0.8], [0.7, 0.7]) is None
    assert statistics.seeds_to_separate([0.5, 0.9], [0.5, 0.9001]) is None


def test_shared_seeds_to_separate_gives_the_target_power():
    differences = [0.01, 0.03, -0.01, 0.02]
    count = statistics.shared_seeds_to_separate(differences)
    generator = np.random.default_rng(0)
    mean, deviation = np.mean(differences), np.std(differences, ddof=1)

    def power(seeds):
        drawn = generator.normal(mean, deviation, (4_000, seeds))
        return np.mean(stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05)

    assert power(count) == pytest.approx(0.8, abs=0.04) and power(count // 2) < 0.7
    assert statistics.shared_seeds_to_separate([0.01, 0.01]) is None
    assert statistics.shared_seeds_to_separate([0.01, -0.01]) is None


def test_two_shared_seeds_are_not_enough_where_scipy_has_no_value_for_the_other_tail():
    differences = [0.07, 0.09]  # t = 8, p = 0.079
    assert np.isnan(special.nctdtr(1.0, 8.0, -12.7))
    drawn = np.random.default_rng(0).normal(0.08, np.std(differences, ddof=1), (4_000, 2))
    assert np.mean(stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05) < 0.6
    assert statistics.shared_seeds_to_separate(differences) == 3


def test_welch_test_equals_hand_computed_values():
    # Means 2 and 5, variances 1 and 14/3, three and four values: squared standard errors 1/3 and 7/6.
    values, original = [1, 2, 3], [3, 4, 5, 8]
    variance = (4 + 1 + 0 + 9) / 3
    error = 1 / 3 + variance / 4
    result = statistics.welch(values, original)
    assert result.difference == pytest.approx(-3)
    assert result.statistic == pytest.approx(-3 / math.sqrt(error))
    degrees = error**2 / ((1 / 3) ** 2 / 2 + (variance / 4) ** 2 / 3)
    assert result.degrees_of_freedom == pytest.approx(degrees)
    assert result.p_value == pytest.approx(2 * stats.t.sf(3 / math.sqrt(error), degrees))
    margin = stats.t.ppf(0.975, degrees) * math.sqrt(error)
    assert (result.lower, result.upper) == pytest.approx((-3 - margin, -3 + margin))


def test_welch_allows_zero_variance_on_one_side():
    result = statistics.welch([0.5, 0.5, 0.5], [0.5, 0.7, 0.6])
    assert result.degrees_of_freedom == pytest.approx(2)  # only the other side has a spread
    assert result.statistic == pytest.approx(-0.1 / math.sqrt(0.01 / 3))


@pytest.mark.parametrize(("values", "original"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], []), ([1.0, 1.0], [2.0, 2.0, 2.0])])
def test_welch_is_none_for_too_few_or_constant_values(values, original):
    assert statistics.welch(values, original) is None


RESULTS = Path(__file__).parent.parent / "results"
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
    exported = json.loads(table.json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert exported["p_holm"] == pytest.approx(2 * exported["p_value"])


def test_caption_states_how_many_seeds_separate_the_two_best_settings():
    near = make_table([*runs(1, (0.80, 0.82, 0.84)), *runs(2, (0.79, 0.80, 0.83))], LAYOUT).markdown()
    settings = "the two best settings (blocks 1; blocks 2) in test accuracy"
    assert f"About 38 seeds each, 35 more than now, are needed to separate {settings}" in near
    # Of settings with different numbers of seeds, the one with fewer counts.
    first, second = (0.80, 0.82, 0.84), (0.79, 0.80, 0.83, 0.82)
    count = statistics.seeds_to_separate(first, second)
    uneven = make_table([*runs(1, first), *runs(2, second)], LAYOUT).markdown()
    assert f"About {count:,} seeds each, {count - 3:,} more than now, are needed to separate {settings}" in uneven
    far = make_table([*runs(1, (0.80, 0.82, 0.84)), *runs(2, (0.70, 0.72, 0.74))], LAYOUT).markdown()
    assert "The seeds separate the two best settings (blocks 1; blocks 2) in test accuracy (p = 0.004" in far
    assert "two best" not in make_table(runs(1, (0.80, 0.82)), LAYOUT).markdown()
    assert "two best" not in make_table([*runs(1, (0.8,)), *runs(2, (0.7,))], LAYOUT).markdown()


def test_caption_states_the_sampling_error_of_the_test_set():
    text = make_table([*runs(1, (0.80, 0.82)), *runs(2, (0.70, 0.72))], LAYOUT).markdown()
    assert "Sampling error of the best test accuracy: 81.0%, 95% interval 79.9 to 82.1 (4,927 pairs)" in text
    # A table without test scores states the error of dev.
    dev = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))
    text = make_table(runs(1, (0.80, 0.82)), dev).markdown()
    assert "Sampling error of the best dev accuracy: 81.0%, 95% interval 77.3 to 84.2 (500 pairs)" in text
    # So does a table of runs whose test labels are not public.
    unscored = [{**one, "test": None} for one in runs(1, (0.80, 0.82))]
    assert make_table(unscored, LAYOUT).markdown().count("Sampling error of the best dev accuracy: 81.0%") == 1
    ranking = TableLayout("t", ("model.blocks",), scores=("dev.accuracy", "test.mrr"))
    assert "Sampling error" not in make_table([record(seed=seed) for seed in (1, 2)], ranking).markdown()


def test_caption_states_the_sampling_error_of_a_correlation():
    layout = TableLayout("t", ("model.blocks",), scores=("dev.pearson", "test.pearson"))
    found = [record(seed=seed, dev={"pearson": 0.8}, test={"pearson": value}) for seed, value in enumerate((0.7, 0.72))]
    text = make_table(found, layout).markdown()
    assert "Sampling error of the best test Pearson: 0.7100, 95% interval 0.6959 to 0.7236 (4,927 pairs)" in text


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
    exported = json.loads(make_table(found, layout).json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert exported["method"] == "paired t-test, two-sided" and exported["p_value"] == pytest.approx(p_value)
    assert r"The seeds separate the two best settings (blocks 2; blocks 1) in dev accuracy (p \< 0.001" in text
    # The differences of the three seeds that both have, which are the last three, are 0.5, 1.0 and 0.1 points.
    near = make_table([*runs(1, first), *runs(2, (0, 0.755, 0.81, 0.851))[1:]], layout).markdown()
    count = statistics.shared_seeds_to_separate([0.005, 0.01, 0.001])
    assert f"About {count} shared seeds, {count - 3} more than now, are needed to separate the two best" in near
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
    assert "Bold" not in text and "separate the two best" not in text
    exported = json.loads(table.json())["rows"][1]["scores"]["dev.accuracy"]["difference"]
    assert exported["lower"] < exported["difference"] < exported["upper"] < 0


def test_data_sets_of_equal_name_but_different_files_are_not_compared():
    """The files of training may differ, because no score depends on them."""

    def of(directory, values, blocks):
        files = {"train": f"for {blocks} blocks", "dev": directory}
        data = record()["data"] | {"name": "own", "fingerprint": directory, "files": files}
        changes = {"data": data, "config": {"data": {"directory": directory}}}
        return runs(blocks, values, **changes)

    layout = TableLayout("t", ("model.blocks",), scores=("dev.accuracy",))
    first, second = (0.80, 0.82, 0.84), (0.70, 0.72, 0.74)
    same = make_table([*of("a", first, 1), *of("a", second, 2)], layout).markdown()
    assert "Bold" in same and "on own" not in same
    text = make_table([*of("a", first, 1), *of("b", second, 2)], layout).markdown()
    assert "Bold" not in text and "two best" not in text
    for directory, best in (("a", "82.0%"), ("b", "72.0%")):
        assert f"Sampling error of the best dev accuracy on own in {directory}: {best}" in text


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
    records = [
        record(1, seed=seed, curve=[{"samples": samples} for samples in curve]) for seed, curve in enumerate(curves)
    ]
    text = make_table(records, LAYOUT).markdown()
    assert note in text and ("Best at the last" in text) == bool(note)


def test_bootstrap_and_improvement_probability_equal_expected_values():
    values = np.random.default_rng(1).normal(0.8, 0.02, 30).tolist()
    lower, upper = statistics.bootstrap_interval(values)
    error = np.std(values) / np.sqrt(len(values))  # the standard error of a normal mean of many values
    assert (lower, upper) == pytest.approx((np.mean(values) - 1.96 * error, np.mean(values) + 1.96 * error), abs=6e-4)
    assert statistics.bootstrap_interval([0.8]) is None
    # 0.5 beats 0.4 alone, 0.9 beats all three, and 0.5 ties with 0.5: (1 + 0.5 + 3) / 6.
    assert statistics.probability_of_improvement([0.5, 0.9], [0.4, 0.5, 0.6]) == pytest.approx(4.5 / 6)


def test_improvement_interval_matches_scipy_and_needs_little_memory():
    values, others = [0.81, 0.83, 0.84, 0.86, 0.86], [0.79, 0.82, 0.84, 0.85]

    def share(one, other):
        return stats.mannwhitneyu(one, other).statistic / (len(one) * len(other))

    assert statistics.probability_of_improvement(values, others) == pytest.approx(share(values, others))
    judge = stats.bootstrap((values, others), share, n_resamples=2_000, vectorized=False, method="percentile", rng=0)
    found = statistics.improvement_interval(values, others)
    assert found == pytest.approx(tuple(judge.confidence_interval), abs=0.051)  # one of the 20 pairs is 0.05
    tracemalloc.start()
    statistics.improvement_interval(np.linspace(0, 1, 100), np.linspace(0, 1, 100))
    assert tracemalloc.get_traced_memory()[1] < 50e6  # all pairs of all draws would be 400 MB
    tracemalloc.stop()
    assert statistics.improvement_interval([0.8], others) is statistics.improvement_interval(values, [0.8]) is None


def test_a_lower_loss_beats_a_higher_one():
    layout = TableLayout("t", ("model.blocks",), scores=("dev.loss",))
    losses = {1: (0.5, 0.6), 2: (0.2, 0.55)}  # of four pairs, two blocks win three
    found = [
        record(blocks, seed=seed, dev={"loss": value}) for blocks in losses for seed, value in enumerate(losses[blocks])
    ]
    folder = SweepFolder(Path("."), "s", layout, {}, {one["run"]: one for one in found})
    ((_, sheet),) = certainty(folder)
    assert [row[-1].content.partition(" ")[0] for row in sheet.sections[0]] == ["–", "75%"]


def test_report_states_how_often_the_best_beats_the_others():
    folder = read_sweep_folder(RESULTS / "sick")
    ((heading, sheet),) = certainty(folder)
    text = " ".join(cell.content for row in sheet.sections[0] for cell in row)
    assert heading == "test accuracy (%), sick"
    # Of the test accuracies of five seeds each, 1 + 2 + 2 + 5 + 5 of 25 pairs are won.
    assert "blocks 3, learning rate 0.001 5 85.2 84.4 to 86.1 – blocks 2, learning rate 0.001 5 84.7" in text
    assert "84.3 to 85.2 60% (20% to 92%) blocks 1, learning rate 0.001" in text
