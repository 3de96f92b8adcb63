"""Intervals and tests equal hand-computed values, and are None or NaN where they are undefined."""

import math

import numpy as np
import pytest
from scipy import special, stats

from jaxmatch.reporting import statistics


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


@pytest.mark.parametrize("values", [[], [0.5]])
def test_fewer_than_two_values_have_no_interval(values):
    assert statistics.mean_interval(values) is None


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


def test_sign_of_the_statistic_follows_the_difference():
    worse, better = statistics.welch([1.0, 1.1], [2.0, 2.1]), statistics.welch([2.0, 2.1], [1.0, 1.1])
    assert worse.statistic == -better.statistic < 0
    assert worse.p_value == better.p_value


def test_welch_allows_zero_variance_on_one_side():
    result = statistics.welch([0.5, 0.5, 0.5], [0.5, 0.7, 0.6])
    assert result.degrees_of_freedom == pytest.approx(2)  # only the other side has a spread
    assert result.statistic == pytest.approx(-0.1 / math.sqrt(0.01 / 3))


@pytest.mark.parametrize(("values", "original"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], []), ([1.0, 1.0], [2.0, 2.0, 2.0])])
def test_welch_is_none_for_too_few_or_constant_values(values, original):
    assert statistics.welch(values, original) is None
