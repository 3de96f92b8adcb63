"""Statistics of scores over seeds, and over the pairs of a test set.

Intervals and tests over seeds take the scores of the seeds as independent and roughly normal. They say nothing about
how much a score depends on which pairs are in the test set: for an accuracy `wilson` does, for a correlation `fisher`.
"""

import bisect
import math
import statistics
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special  # `scipy.stats` takes most of a second to import

CONFIDENCE = 0.95  # of all intervals
NORMAL_QUANTILE = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # in standard deviations
LEVEL = 1 - CONFIDENCE
POWER, MOST_SEEDS = 0.8, 10_000


# Intervals


def mean_and_deviation(values: Collection[float]) -> tuple[float, float | None]:
    """Returns the mean, and the sample standard deviation with n - 1 in its denominator. Both are NaN if a value is not
    finite, but the deviation of a single value is None.
    """
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan if len(values) > 1 else None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def to_published(
    values: Sequence[float], published: float, deviation: float | None = None, count: int | None = None
) -> tuple[float, float] | None:
    """Computes the confidence interval (lower, upper) of the mean of our scores minus a published mean, by Welch's t.
    It is None without a spread, or for fewer than two values. Without the sample standard deviation and the number of
    runs of the published mean, it counts as exact.
    """
    if len(values) < 2:
        return None
    sides = [(statistics.variance(values), len(values))]
    if deviation and count and count > 1:
        sides.append((deviation**2, count))
    if not any(variance for variance, _ in sides):
        return None
    error, freedom = _welch_error(sides)
    difference, margin = statistics.fmean(values) - published, _t_quantile(freedom) * error
    return difference - margin, difference + margin


def wilson(share: float, count: int) -> tuple[float, float]:
    """Computes the interval of a share of `count` independent draws (Wilson, 1927). Unlike the normal approximation, it
    is also right for few draws and near 0 and 1.
    """
    square = NORMAL_QUANTILE**2
    center = (share + square / (2 * count)) / (1 + square / count)
    margin = NORMAL_QUANTILE / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return center - margin, center + margin


def fisher(correlation: float, count: int) -> tuple[float, float]:
    """Computes the interval of Pearson's correlation of more than three pairs (Fisher, 1921). The correlation's inverse
    hyperbolic tangent is about normal, with a deviation of `1 / sqrt(count - 3)`.
    """
    center, margin = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, correlation))), NORMAL_QUANTILE / math.sqrt(count - 3)
    return math.tanh(center - margin), math.tanh(center + margin)


def mean_interval(values: np.ndarray) -> tuple[float, float]:
    """Computes the interval of the mean of two or more independent draws, by Student's t."""
    margin = _t_quantile(len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - margin), float(values.mean() + margin)


def f1_intervals(confusion: np.ndarray, draws: int = 2000) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Computes the interval of F1 of each class, and that of their mean over the classes that occur.

    It is the percentile bootstrap (Efron, 1979). To draw pairs with replacement is to draw the cells of the confusion
    matrix <int>[labels, predictions] from a multinomial distribution.
    """
    drawn = np.random.default_rng(0).multinomial(confusion.sum(), confusion.ravel() / confusion.sum(), draws)
    drawn = drawn.reshape(draws, *confusion.shape)
    sizes = drawn.sum(axis=1) + drawn.sum(axis=2)
    each = 2 * np.diagonal(drawn, axis1=1, axis2=2) / np.maximum(sizes, 1)
    macro = each.sum(axis=1) / np.count_nonzero(sizes, axis=1)
    lower, upper = np.quantile(np.column_stack([each, macro]), [LEVEL / 2, 1 - LEVEL / 2], axis=0).tolist()
    *classes, whole = zip(lower, upper, strict=True)
    return classes, whole


def _t_quantile(freedom: float) -> float:
    """Returns the limit that the absolute value of Student's t exceeds with the probability `LEVEL`."""
    return float(special.stdtrit(freedom, 1 - LEVEL / 2))


def _welch_error(sides: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Returns the standard error of a difference of means, and its degrees of freedom by Welch and Satterthwaite, from
    the (variance, number) of each side's values.
    """
    parts = [(variance / count, count - 1) for variance, count in sides]
    total = sum(part for part, _ in parts)
    return math.sqrt(total), total**2 / sum(part**2 / own for part, own in parts)


# Tests


class Difference(NamedTuple):
    """The mean of some values minus the mean of others, and the two-sided p value of its t-test (None if no test is
    possible), as it is and corrected for other comparisons.
    """

    value: float
    p_value: float | None = None
    corrected: float | None = None


def welch(values: Sequence[float], original: Sequence[float]) -> Difference | None:
    """Compares two means by Welch's t-test, which lets the two spreads differ (Welch, 1947).

    Arguments:
      values, original: the scores of the changed and of the original setting, one per seed. Seeds are not paired.

    Returns:
      The difference, or None if no test is possible: a side has fewer than two values, or neither side has a spread.
    """
    if min(len(values), len(original)) < 2 or (np.ptp(values) == 0 and np.ptp(original) == 0):
        return None
    error, freedom = _welch_error([(float(np.var(side, ddof=1)), len(side)) for side in (values, original)])
    difference = statistics.fmean(values) - statistics.fmean(original)
    return Difference(difference, _p_value(difference / error, freedom))


def paired(values: Sequence[float], original: Sequence[float]) -> Difference | None:
    """Compares two means by the t-test of the differences of pairs. It does not count as chance what both of a pair
    share, such as the order of the batches.

    Returns:
      The difference, or None if no test is possible: fewer than two pairs, or equal differences but for rounding.
    """
    differences = [value - other for value, other in zip(values, original, strict=True)]
    if len(differences) < 2 or np.ptp(differences) <= 1e-9 * max(map(abs, (*values, *original))):
        return None
    difference, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(len(differences))
    return Difference(difference, _p_value(difference / error, len(differences) - 1))


def _p_value(t: float, freedom: float) -> float:
    return 2 * float(special.stdtr(freedom, -abs(t)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects p values for the number of tests (Holm, 1979).

    Returns:
      `max_{j <= i} min(1, (m - j + 1) p_(j))` for the i-th smallest of the m p values, in the order given.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


# Numbers of seeds


def seeds_to_separate(values: Sequence[float], others: Sequence[float]) -> int | None:
    """Computes how many seeds each of two settings needs, so that Welch's two-sided test finds a difference as large as
    theirs, at their spread, with a power of 80%; None: more than `MOST_SEEDS`.

    Arguments:
      values, others: the scores of the two settings, one per seed: two at least, and one of them with a spread.
    """
    variances = [statistics.variance(side) for side in (values, others)]
    difference, total = statistics.fmean(values) - statistics.fmean(others), sum(variances)
    freedom = total**2 / sum(variance**2 for variance in variances)  # for each seed more than one

    def power(count: int) -> float:
        degrees, shift = (count - 1) * freedom, abs(difference) * math.sqrt(count / total)
        # The other tail is left out: at a power of 80% it is negligible, and SciPy may give NaN for it.
        return float(1 - special.nctdtr(degrees, shift, _t_quantile(degrees)))

    if power(MOST_SEEDS) < POWER:
        return None
    return bisect.bisect_left(range(2, MOST_SEEDS), POWER, key=power) + 2
