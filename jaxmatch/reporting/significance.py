"""The certainty of differences between scores over seeds: confidence intervals, Welch's t-test, and the paired t-test.

The functions assume that the scores of the seeds are independent and roughly normal. They consider nothing else: seeds
show how much a score depends on chance in training, not how much it depends on which pairs are in the test set. For an
accuracy, `wilson` shows the latter.
"""

import bisect
import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence

import numpy as np

CONFIDENCE = 0.95
LEVEL = 1 - CONFIDENCE
NORMAL_REACH = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # in standard deviations
POWER, MOST_SEEDS = 0.8, 10_000
METHOD, PAIRED = "Welch's t-test, two-sided", "paired t-test, two-sided"
ASSUMPTION = "scores of seeds taken as independent and roughly normal"


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean, and the range that covers it with a given confidence.

    Attributes:
      mean: the mean of the values.
      lower, upper: the ends of the range.
      confidence: the confidence, such as 0.95.
      count: the number of values.
    """

    mean: float
    lower: float
    upper: float
    confidence: float
    count: int


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference between the means of two groups of values, by a t-test.

    Attributes:
      difference: the mean of the values minus the mean of the others.
      lower, upper: the confidence interval of the difference.
      statistic: the statistic t.
      degrees_of_freedom: the degrees of freedom of t.
      p_value: the two-sided p value, not corrected for other comparisons.
      confidence: the confidence of the interval.
      method: `METHOD` or `PAIRED`.
    """

    difference: float
    lower: float
    upper: float
    statistic: float
    degrees_of_freedom: float
    p_value: float
    confidence: float
    method: str = METHOD


def mean_and_deviation(values: Collection[float]) -> tuple[float, float | None]:
    """Returns the mean, and the sample standard deviation with n - 1 in its denominator. Both are NaN if a value is not
    finite, but the deviation of a single value is None.
    """
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan if len(values) > 1 else None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Computes the confidence interval of a mean by Student's t: mean ± t(n - 1) * s / sqrt(n).

    Arguments:
      values: the scores, one per seed.
      confidence: the confidence, between 0 and 1.

    Returns:
      The interval, or None for fewer than two values, which do not show their spread.

    Raises:
      ValueError: a value is not finite, or the confidence is not between 0 and 1.
    """
    values = _checked(values, confidence)
    if len(values) < 2:
        return None
    mean, deviation = mean_and_deviation(values)
    reach = _quantile((1 + confidence) / 2, len(values) - 1) * deviation / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach, confidence, len(values))


def to_published(
    values: Sequence[float],
    published: float,
    deviation: float | None = None,
    count: int | None = None,
    confidence: float = CONFIDENCE,
) -> tuple[float, float] | None:
    """Computes the confidence interval of the difference between our mean and a published mean.

    Arguments:
      values: the scores, one per seed.
      published: the published mean, in the same unit.
      deviation: the published sample standard deviation, if there is one.
      count: the number of runs of the published mean. Without it or the deviation, that mean counts as exact.
      confidence: the confidence, between 0 and 1.

    Returns:
      (lower, upper) of our mean minus theirs, by Welch's t. None without a spread, or for fewer than two values.

    Raises:
      ValueError: a value is not finite, or the confidence is not between 0 and 1.
    """
    values = _checked(values, confidence)
    if len(values) < 2:
        return None
    variances = [(statistics.variance(values) / len(values), len(values) - 1)]
    if deviation and count and count > 1:
        variances.append((deviation**2 / count, count - 1))
    total = sum(variance for variance, _ in variances)
    if not total:
        return None
    freedom = total**2 / sum(variance**2 / own for variance, own in variances)
    reach = _quantile((1 + confidence) / 2, freedom) * math.sqrt(total)
    difference = statistics.fmean(values) - published
    return difference - reach, difference + reach


def wilson(share: float, count: int) -> tuple[float, float]:
    """Computes the interval of a share of `count` independent draws (Wilson, 1927), with the confidence `CONFIDENCE`.
    Unlike the normal approximation, it is also right for few draws and near 0 and 1.
    """
    square = NORMAL_REACH**2
    center = (share + square / (2 * count)) / (1 + square / count)
    reach = NORMAL_REACH / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return center - reach, center + reach


def fisher(correlation: float, count: int) -> tuple[float, float]:
    """Computes the interval of Pearson's correlation of more than three pairs, with the confidence `CONFIDENCE`
    (Fisher, 1921). The correlation's inverse hyperbolic tangent is about normal, with a deviation of
    `1 / sqrt(count - 3)`.
    """
    center, reach = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, correlation))), NORMAL_REACH / math.sqrt(count - 3)
    return math.tanh(center - reach), math.tanh(center + reach)


def judge(lower: float, upper: float, higher_is_better: bool = True, rounding: float = 0.0) -> str:
    """Judges our mean by the interval of its difference from a published number.

    Arguments:
      lower, upper: the ends of the interval of our mean minus the published number.
      higher_is_better: whether a greater score is better.
      rounding: how far the published number may be from the number before rounding.

    Returns:
      "covers" if the interval contains zero, ends included, or may contain it but for rounding. Otherwise "beats" if
      all of it is better, and "misses" if all of it is worse.
    """
    if lower - rounding <= 0 <= upper + rounding:
        return "covers"
    return "beats" if (lower > 0) == higher_is_better else "misses"


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
    from scipy import special

    freedom_of = (one + other) ** 2 / (one**2 + other**2)

    def power(count: int) -> float:
        freedom, shift = (count - 1) * freedom_of, difference / math.sqrt((one + other) / count)
        limit = _quantile(1 - level / 2, freedom)
        return float(1 - special.nctdtr(freedom, shift, limit) + special.nctdtr(freedom, shift, -limit))

    if power(MOST_SEEDS) < POWER:
        return None
    return bisect.bisect_left(range(2, MOST_SEEDS), POWER, key=power) + 2


def welch(values: Sequence[float], original: Sequence[float], confidence: float = CONFIDENCE) -> Difference | None:
    """Compares two means by Welch's t-test, which lets the two spreads differ (Welch, 1947).

    Arguments:
      values: the scores of the changed setting, one per seed.
      original: the scores of the original setting, one per seed. The seeds need not be the same, and are not paired.
      confidence: the confidence of the interval of the difference.

    Returns:
      The difference, or None if no test is possible: a side has fewer than two values, or neither side has a spread.

    Raises:
      ValueError: a value is not finite, or the confidence is not between 0 and 1.
    """
    values, original = _checked(values, confidence), _checked(original, confidence)
    if min(len(values), len(original)) < 2 or (np.ptp(values) == 0 and np.ptp(original) == 0):
        return None
    from scipy import special

    (mean, variance), (other_mean, other_variance) = _mean_and_its_variance(values), _mean_and_its_variance(original)
    with np.errstate(all="ignore"):  # scores too large or too small to be squared give infinity and NaN
        freedom = (variance + other_variance) ** 2 / (
            variance**2 / (len(values) - 1) + other_variance**2 / (len(original) - 1)
        )
        difference, error = mean - other_mean, np.sqrt(variance + other_variance)
        statistic, tail = difference / error, (1 - confidence) / 2
        lower, upper = (_quantile(share, freedom) * error + difference for share in (tail, 1 - tail))
    return Difference(
        difference=statistics.fmean(values) - statistics.fmean(original),
        lower=float(lower),
        upper=float(upper),
        statistic=float(statistic),
        degrees_of_freedom=float(freedom),
        p_value=2 * float(special.stdtr(freedom, -abs(statistic))),
        confidence=confidence,
    )


def paired(values: Sequence[float], original: Sequence[float], confidence: float = CONFIDENCE) -> Difference | None:
    """Compares two means by the t-test of the differences of pairs. It does not count as chance what both of a pair
    share, such as the order of the batches.

    Arguments:
      values: the scores of the changed setting, one per seed.
      original: the scores of the original setting, by the same seeds in the same order.
      confidence: the confidence of the interval of the difference.

    Returns:
      The difference, or None if no test is possible: fewer than two pairs, or equal differences but for rounding.

    Raises:
      ValueError: a value is not finite, the confidence is not between 0 and 1, or the numbers of values differ.
    """
    pairs = zip(_checked(values, confidence), _checked(original, confidence), strict=True)
    differences = [value - other for value, other in pairs]
    interval = mean_interval(differences, confidence)
    rounding = 1e-9 * max(map(abs, (*values, *original)), default=0.0)
    if interval is None or np.ptp(differences) <= rounding:
        return None
    from scipy import special

    freedom = float(len(differences) - 1)
    statistic = interval.mean / (statistics.stdev(differences) / math.sqrt(len(differences)))
    p_value = 2 * float(special.stdtr(freedom, -abs(statistic)))
    return Difference(interval.mean, interval.lower, interval.upper, statistic, freedom, p_value, confidence, PAIRED)


def _quantile(share: float, freedom: float) -> float:
    """Returns a quantile of Student's t distribution."""
    # scipy.stats is not used: importing it takes most of a second, as long as the rest of a table.
    from scipy import special

    return float(special.stdtrit(freedom, share))


def _mean_and_its_variance(values: Sequence[float]) -> tuple[np.float64, np.float64]:
    """Returns the mean and the square of its standard error, rounded as in scipy.stats.ttest_ind."""
    mean, count = np.mean(values), len(values)
    with np.errstate(over="ignore"):
        return mean, np.mean((np.asarray(values) - mean) ** 2) * (count / (count - 1)) / count


def _checked(values: Sequence[float], confidence: float) -> list[float]:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    values = [float(value) for value in values]
    if not all(map(math.isfinite, values)):
        raise ValueError("a score that is not finite has no place in a mean; leave diverged runs out")
    return values
