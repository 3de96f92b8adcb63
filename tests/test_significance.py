"""Significance tests equal hand-computed values, and are None where no test is possible."""

import math

import numpy as np
import pytest
from scipy import special, stats

from jaxmatch.reporting import intervals, significance


def test_paired_test_equals_scipy():
    values, original = [0.7, 0.8, 0.75, 0.9], [0.65, 0.72, 0.74, 0.8]
    expected = stats.ttest_rel(values, original)
    found, interval = significance.paired(values, original), expected.confidence_interval(0.95)
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert (found.lower, found.upper) == pytest.approx((interval.low, interval.high))
    assert significance.paired([0.5], [0.4]) is None
    accuracies = np.array([801, 797, 815]) / 1002
    assert significance.paired(accuracies + 7 / 1002, accuracies) is None  # equal up to rounding
    with pytest.raises(ValueError):
        significance.paired([0.5, 0.6], [0.5])


def test_holm_correction_equals_hand_computed_values():
    # Sorted 0.01, 0.02, 0.03, 0.2 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.2; no value is below the one before.
    assert significance.holm([0.02, 0.2, 0.01, 0.03]) == pytest.approx([0.06, 0.2, 0.04, 0.06])
    assert significance.holm([0.6, 0.7]) == [1.0, 1.0] and significance.holm([]) == []


def test_seeds_to_separate_gives_the_target_power():
    values, others = [0.80, 0.82, 0.84, 0.83], [0.79, 0.80, 0.82, 0.81]
    count = significance.seeds_to_separate(values, others)
    generator = np.random.default_rng(0)

    def power(seeds):
        found = 0
        for _ in range(2_000):
            drawn = (generator.normal(np.mean(each), np.std(each, ddof=1), seeds).tolist() for each in (values, others))
            found += significance.welch(*drawn).p_value < 0.05
        return found / 2_000

    assert power(count) == pytest.approx(0.8, abs=0.04) and power(count // 2) < 0.7
    assert significance.seeds_to_separate(values, others, 0.05 / 4) > count
    assert significance.seeds_to_separate(values, values) is None
    assert significance.seeds_to_separate([0.8, 0.8], [0.7, 0.7]) is None
    assert significance.seeds_to_separate([0.5, 0.9], [0.5, 0.9001]) is None


def test_shared_seeds_to_separate_gives_the_target_power():
    differences = [0.01, 0.03, -0.01, 0.02]
    count = significance.shared_seeds_to_separate(differences)
    generator = np.random.default_rng(0)
    mean, deviation = np.mean(differences), np.std(differences, ddof=1)

    def power(seeds):
        drawn = generator.normal(mean, deviation, (4_000, seeds))
        return np.mean(stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05)

    assert power(count) == pytest.approx(0.8, abs=0.04) and power(count // 2) < 0.7
    assert significance.shared_seeds_to_separate([0.01, 0.01]) is None
    assert significance.shared_seeds_to_separate([0.01, -0.01]) is None


def test_two_shared_seeds_are_not_enough_where_scipy_has_no_value_for_the_other_tail():
    differences = [0.07, 0.09]  # t = 8, p = 0.079
    assert np.isnan(special.nctdtr(1.0, 8.0, -12.7))
    drawn = np.random.default_rng(0).normal(0.08, np.std(differences, ddof=1), (4_000, 2))
    assert np.mean(stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05) < 0.6
    assert significance.shared_seeds_to_separate(differences) == 3


def test_welch_test_equals_hand_computed_values():
    # Means 2 and 5, variances 1 and 14/3, three and four values: squared standard errors 1/3 and 7/6.
    values, original = [1, 2, 3], [3, 4, 5, 8]
    variance = (4 + 1 + 0 + 9) / 3
    error = 1 / 3 + variance / 4
    result = significance.welch(values, original)
    assert result.difference == pytest.approx(-3)
    assert result.statistic == pytest.approx(-3 / math.sqrt(error))
    degrees = error**2 / ((1 / 3) ** 2 / 2 + (variance / 4) ** 2 / 3)
    assert result.degrees_of_freedom == pytest.approx(degrees)
    assert (result.lower + result.upper) / 2 == pytest.approx(-3)


def test_p_value_equals_numerical_integration_of_the_t_density():
    result = significance.welch([0.81, 0.83, 0.82, 0.84], [0.80, 0.79, 0.83, 0.80, 0.81])
    degrees, place = result.degrees_of_freedom, abs(result.statistic)
    t = np.linspace(place, 400, 2_000_001)
    scale = math.gamma((degrees + 1) / 2) / math.sqrt(degrees * math.pi) / math.gamma(degrees / 2)
    beyond = np.trapezoid(scale * (1 + t**2 / degrees) ** (-(degrees + 1) / 2), t)
    assert 0.01 < result.p_value < 0.2
    assert result.p_value == pytest.approx(2 * beyond, rel=1e-4)
    # The interval of the difference holds 0 exactly when the p value is above 0.05.
    assert (result.lower < 0 < result.upper) == (result.p_value > 0.05)


def test_sign_of_the_statistic_follows_the_difference():
    worse, better = significance.welch([1.0, 1.1], [2.0, 2.1]), significance.welch([2.0, 2.1], [1.0, 1.1])
    assert worse.statistic == -better.statistic < 0
    assert worse.p_value == better.p_value


def test_welch_allows_zero_variance_on_one_side():
    result = significance.welch([0.5, 0.5, 0.5], [0.5, 0.7, 0.6])
    assert result.degrees_of_freedom == pytest.approx(2)  # only the other side has a spread
    assert result.statistic == pytest.approx(-0.1 / math.sqrt(0.01 / 3))


@pytest.mark.parametrize(("values", "original"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], []), ([1.0, 1.0], [2.0, 2.0, 2.0])])
def test_welch_is_none_for_too_few_or_constant_values(values, original):
    assert significance.welch(values, original) is None


def test_non_finite_scores_are_refused():
    for values in ([1.0, math.nan], [math.inf, 1.0]):
        with pytest.raises(ValueError, match="not finite"):
            intervals.mean_interval(values)
        with pytest.raises(ValueError, match="not finite"):
            significance.welch([1.0, 2.0], values)
