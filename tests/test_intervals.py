"""Intervals equal hand-computed values, and are None or NaN where they are undefined."""

import math

import numpy as np
import pytest
from scipy import stats

from jaxmatch.reporting import intervals, significance


def test_mean_interval_equals_hand_computed_value():
    # Mean 3, variance (4 + 1 + 0 + 1 + 4) / 4 = 2.5; t of 4 degrees at 97.5% is 2.776 in any printed table.
    interval = intervals.mean_interval([1, 2, 3, 4, 5])
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
    assert intervals.judge(lower, upper, higher_is_better, rounding) == verdict


@pytest.mark.parametrize("undefined", [math.nan, math.inf])
def test_mean_and_deviation_of_undefined_scores_are_undefined(undefined):
    mean, deviation = intervals.mean_and_deviation([0.5, undefined, 0.7])
    assert math.isnan(mean) and math.isnan(deviation)
    mean, deviation = intervals.mean_and_deviation([undefined])
    assert math.isnan(mean) and deviation is None


@pytest.mark.parametrize(("right", "count"), [(40, 40), (39, 40), (399, 493), (0, 5)])
def test_wilson_interval_equals_scipy(right, count):
    expected = stats.binomtest(right, count).proportion_ci(method="wilson")
    assert intervals.wilson(right / count, count) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("count", "seed"), [(4, 0), (9, 1), (200, 2)])
def test_fisher_interval_equals_scipy(count, seed):
    draws = np.random.default_rng(seed)
    first = draws.normal(size=count)
    found = stats.pearsonr(first, first + draws.normal(size=count))
    expected = found.confidence_interval(0.95)
    assert intervals.fisher(found.statistic, count) == pytest.approx((expected.low, expected.high))
    assert intervals.fisher(1.0, count) == pytest.approx((1.0, 1.0), abs=1e-3)


@pytest.mark.parametrize("values", [[], [0.5]])
def test_fewer_than_two_values_have_no_interval(values):
    assert intervals.mean_interval(values) is None


def test_difference_to_a_published_mean_equals_hand_computed_and_welch():
    values, others = [0.80, 0.82, 0.84], [0.85, 0.86, 0.88, 0.85]
    # The published number has no deviation. Our values have mean 0.82, deviation 0.02, t(2) = 4.303.
    margin = 4.3026527 * 0.02 / math.sqrt(3)
    assert intervals.to_published(values, 0.9) == pytest.approx((-0.08 - margin, -0.08 + margin), abs=1e-6)
    assert intervals.to_published(values, 0.9, 0.01) == intervals.to_published(values, 0.9)  # unused without count
    # With the number of runs, the interval is that of Welch's test on the runs.
    found = intervals.to_published(values, np.mean(others), np.std(others, ddof=1), len(others))
    test = significance.welch(values, others)
    assert found == pytest.approx((test.lower, test.upper), rel=1e-9)
    assert intervals.to_published([0.8], 0.9) is None and intervals.to_published([0.8, 0.8], 0.9) is None
