"""Tests of differences between scores over seeds: Welch's t-test, the paired t-test, Holm's correction.

The tests assume that the scores of the seeds are independent and roughly normal.
"""

import bisect
import dataclasses
import math
import statistics
from collections.abc import Sequence

import numpy as np

from jaxmatch.reporting.intervals import CONFIDENCE, checked, mean_interval, t_quantile

LEVEL = 1 - CONFIDENCE
POWER, MOST_SEEDS = 0.8, 10_000
METHOD, PAIRED = "Welch's t-test, two-sided", "paired t-test, two-sided"
ASSUMPTION = "scores of seeds taken as independent and roughly normal"


@dataclasses.dataclass(frozen=True)
class MeanDifference:
    """The difference between the means of two groups of values, by a t-test.

    Attributes:
      difference: the mean of the values minus the mean of the others.
      lower, upper: the confidence interval of the difference.
      statistic: the statistic t.
      degrees_of_freedom: the degrees of freedom of t.
      p_value: the two-sided p value, not corrected for other comparisons.
      method: `METHOD` or `PAIRED`.
    """

    difference: float
    lower: float
    upper: float
    statistic: float
    degrees_of_freedom: float
    p_value: float
    method: str = METHOD


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects p values for the number of tests (Holm, 1979).

    Arguments:
      p_values: the p values of m tests.

    Returns:
      `max_{j <= i} min(1, (m - j + 1) p_(j))` for the i-th smallest p value, in the order given.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def seeds_to_separate(values: Sequence[float], others: Sequence[float], level: float = LEVEL) -> int | None:
    """Computes how many seeds each of two settings needs, so that Welch's test finds a difference as large as theirs,
    at their spreads, with a power of 80% (two-sided).

    Arguments:
      values: the scores of one setting, one per seed.
      others: the scores of the other setting, one per seed.
      level: the level of the test. With k tests, `LEVEL / k` is enough for Holm's correction, too.

    Returns:
      The number of seeds. None if there is no difference or no spread, or if more than `MOST_SEEDS` are needed.

    Raises:
      statistics.StatisticsError: a side has fewer than two values.
    """
    difference = abs(statistics.fmean(values) - statistics.fmean(others))
    one, other = statistics.variance(values), statistics.variance(others)
    if not difference or not one + other:
        return None
    return _fewest_seeds(difference**2 / (one + other), (one + other) ** 2 / (one**2 + other**2), level)


def shared_seeds_to_separate(differences: Sequence[float], level: float = LEVEL) -> int | None:
    """Computes how many seeds two settings need to share, so that the paired t-test finds a difference as large as
    theirs, at its spread, with a power of 80% (two-sided).

    Arguments:
      differences: for each shared seed, the score of one setting minus that of the other.
      level: the level of the test.

    Returns:
      The number of shared seeds, or None as in `seeds_to_separate`.

    Raises:
      statistics.StatisticsError: there are fewer than two differences.
    """
    difference, variance = statistics.fmean(differences), statistics.variance(differences)
    return _fewest_seeds(difference**2 / variance, 1.0, level) if difference and variance else None


def _fewest_seeds(effect: float, freedom: float, level: float) -> int | None:
    """Returns the fewest seeds with which a two-sided t-test has the target power.

    Arguments:
      effect: the square of t, divided by the number of seeds.
      freedom: the degrees of freedom, divided by one less than the number of seeds.
      level: the level of the test.

    Returns:
      The number of seeds. None: more than `MOST_SEEDS`.
    """
    from scipy import special

    def power(count: int) -> float:
        degrees, shift = (count - 1) * freedom, math.sqrt(effect * count)
        limit = t_quantile(1 - level / 2, degrees)
        # The other tail is left out: at a power of 80% it is negligible, and SciPy may give NaN for it.
        return float(1 - special.nctdtr(degrees, shift, limit))

    if power(MOST_SEEDS) < POWER:
        return None
    return bisect.bisect_left(range(2, MOST_SEEDS), POWER, key=power) + 2


def welch(values: Sequence[float], original: Sequence[float]) -> MeanDifference | None:
    """Compares two means by Welch's t-test, which lets the two spreads differ (Welch, 1947).

    Arguments:
      values: the scores of the changed setting, one per seed.
      original: the scores of the original setting, one per seed. The seeds need not be the same, and are not paired.

    Returns:
      The difference, or None if no test is possible: a side has fewer than two values, or neither side has a spread.

    Raises:
      ValueError: a value is not finite.
    """
    values, original = checked(values), checked(original)
    if min(len(values), len(original)) < 2 or (np.ptp(values) == 0 and np.ptp(original) == 0):
        return None
    from scipy import special

    (mean, variance), (other_mean, other_variance) = _mean_and_its_variance(values), _mean_and_its_variance(original)
    with np.errstate(all="ignore"):  # scores too large or too small to be squared give infinity and NaN
        freedom = (variance + other_variance) ** 2 / (
            variance**2 / (len(values) - 1) + other_variance**2 / (len(original) - 1)
        )
        difference, error = mean - other_mean, np.sqrt(variance + other_variance)
        statistic, tail = difference / error, LEVEL / 2
        lower, upper = (t_quantile(share, freedom) * error + difference for share in (tail, 1 - tail))
    return MeanDifference(
        difference=statistics.fmean(values) - statistics.fmean(original),
        lower=float(lower),
        upper=float(upper),
        statistic=float(statistic),
        degrees_of_freedom=float(freedom),
        p_value=2 * float(special.stdtr(freedom, -abs(statistic))),
    )


def paired(values: Sequence[float], original: Sequence[float]) -> MeanDifference | None:
    """Compares two means by the t-test of the differences of pairs. It does not count as chance what both of a pair
    share, such as the order of the batches.

    Arguments:
      values: the scores of the changed setting, one per seed.
      original: the scores of the original setting, by the same seeds in the same order.

    Returns:
      The difference, or None if no test is possible: fewer than two pairs, or equal differences but for rounding.

    Raises:
      ValueError: a value is not finite, or the numbers of values differ.
    """
    pairs = zip(checked(values), checked(original), strict=True)
    differences = [value - other for value, other in pairs]
    interval = mean_interval(differences)
    rounding = 1e-9 * max(map(abs, (*values, *original)), default=0.0)
    if interval is None or np.ptp(differences) <= rounding:
        return None
    from scipy import special

    freedom = float(len(differences) - 1)
    statistic = interval.mean / (statistics.stdev(differences) / math.sqrt(len(differences)))
    p_value = 2 * float(special.stdtr(freedom, -abs(statistic)))
    return MeanDifference(interval.mean, interval.lower, interval.upper, statistic, freedom, p_value, PAIRED)


def _mean_and_its_variance(values: Sequence[float]) -> tuple[np.float64, np.float64]:
    """Returns the mean and the square of its standard error, rounded as in scipy.stats.ttest_ind."""
    mean, count = np.mean(values), len(values)
    with np.errstate(over="ignore"):
        return mean, np.mean((np.asarray(values) - mean) ** 2) * (count / (count - 1)) / count
