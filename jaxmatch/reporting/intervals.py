"""Confidence intervals of scores: of a mean over seeds, of its difference from a published number, and of a test score
over its pairs.

Intervals over seeds assume that the scores of the seeds are independent and roughly normal. Seeds show how much a score
depends on chance in training, not how much it depends on which pairs are in the test set. For an accuracy, `wilson`
shows the latter, and for Pearson's correlation `fisher`.
"""

import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence

CONFIDENCE = 0.95  # of all intervals
NORMAL_QUANTILE = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # in standard deviations


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean, and the range that covers it with the confidence `CONFIDENCE`.

    Attributes:
      mean: the mean of the values.
      lower, upper: the ends of the range.
      count: the number of values.
    """

    mean: float
    lower: float
    upper: float
    count: int


def mean_and_deviation(values: Collection[float]) -> tuple[float, float | None]:
    """Returns the mean, and the sample standard deviation with n - 1 in its denominator. Both are NaN if a value is not
    finite, but the deviation of a single value is None.
    """
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan if len(values) > 1 else None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Computes the confidence interval of a mean by Student's t: mean ± t(n - 1) * s / sqrt(n).

    Arguments:
      values: the scores, one per seed.

    Returns:
      The interval, or None for fewer than two values, which do not show their spread.

    Raises:
      ValueError: a value is not finite.
    """
    values = checked(values)
    if len(values) < 2:
        return None
    mean, deviation = mean_and_deviation(values)
    margin = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * deviation / math.sqrt(len(values))
    return Interval(mean, mean - margin, mean + margin, len(values))


def to_published(
    values: Sequence[float],
    published: float,
    deviation: float | None = None,
    count: int | None = None,
) -> tuple[float, float] | None:
    """Computes the confidence interval of the difference between our mean and a published mean.

    Arguments:
      values: the scores, one per seed.
      published: the published mean, in the same unit.
      deviation: the published sample standard deviation, if there is one.
      count: the number of runs of the published mean. Without it or the deviation, that mean counts as exact.

    Returns:
      (lower, upper) of our mean minus theirs, by Welch's t. None without a spread, or for fewer than two values.

    Raises:
      ValueError: a value is not finite.
    """
    values = checked(values)
    if len(values) < 2:
        return None
    variances = [(statistics.variance(values) / len(values), len(values) - 1)]
    if deviation and count and count > 1:
        variances.append((deviation**2 / count, count - 1))
    total = sum(variance for variance, _ in variances)
    if not total:
        return None
    freedom = total**2 / sum(variance**2 / own for variance, own in variances)
    margin = t_quantile((1 + CONFIDENCE) / 2, freedom) * math.sqrt(total)
    difference = statistics.fmean(values) - published
    return difference - margin, difference + margin


def wilson(share: float, count: int) -> tuple[float, float]:
    """Computes the interval of a share of `count` independent draws (Wilson, 1927), with the confidence `CONFIDENCE`.
    Unlike the normal approximation, it is also right for few draws and near 0 and 1.
    """
    square = NORMAL_QUANTILE**2
    center = (share + square / (2 * count)) / (1 + square / count)
    margin = NORMAL_QUANTILE / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return center - margin, center + margin


def fisher(correlation: float, count: int) -> tuple[float, float]:
    """Computes the interval of Pearson's correlation of more than three pairs, with the confidence `CONFIDENCE`
    (Fisher, 1921). The correlation's inverse hyperbolic tangent is about normal, with a deviation of
    `1 / sqrt(count - 3)`.
    """
    center, margin = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, correlation))), NORMAL_QUANTILE / math.sqrt(count - 3)
    return math.tanh(center - margin), math.tanh(center + margin)


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


def t_quantile(share: float, freedom: float) -> float:
    """Returns a quantile of Student's t distribution."""
    # scipy.stats is not used: importing it takes most of a second, as long as the rest of a table.
    from scipy import special

    return float(special.stdtrit(freedom, share))


def checked(values: Sequence[float]) -> list[float]:
    """Returns the values as floats.

    Raises:
      ValueError: a value is not finite.
    """
    values = [float(value) for value in values]
    if not all(map(math.isfinite, values)):
        raise ValueError("a score that is not finite has no place in a mean; leave diverged runs out")
    return values
