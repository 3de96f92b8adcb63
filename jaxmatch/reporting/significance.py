"""How sure a difference between seeds is: confidence intervals of means, Welch's t-test, and the paired one.

They take the scores of the seeds as independent and roughly normal. That is all they take into account: seeds say how
much a score depends on chance in training, not how much it depends on which pairs the test set holds; of an accuracy,
`wilson` says that.
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
      mean: of the values.
      lower, upper: ends of the range.
      confidence: such as 0.95.
      count: how many values.
    """

    mean: float
    lower: float
    upper: float
    confidence: float
    count: int


@dataclasses.dataclass(frozen=True)
class Difference:
    """How the mean of some values differs from that of others, by a t-test.

    Attributes:
      difference: the mean of the values less the mean of the others.
      lower, upper: its confidence interval.
      statistic: t.
      degrees_of_freedom: of t.
      p_value: two-sided, not corrected for other comparisons.
      confidence: of the interval.
    """

    difference: float
    lower: float
    upper: float
    statistic: float
    degrees_of_freedom: float
    p_value: float
    confidence: float


def mean_and_deviation(values: Collection[float]) -> tuple[float, float | None]:
    """The mean, and the sample standard deviation with n - 1 in its denominator; None for a single value. Both are NaN
    where a value is not finite.
    """
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan if len(values) > 1 else None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The confidence interval of a mean, by Student's t: mean ± t(n - 1) * s / sqrt(n).

    Arguments:
      values: one score a seed.
      confidence: between 0 and 1.

    Returns:
      None for fewer than two values, which say nothing about their spread.

    Raises:
      ValueError: a value is not finite, or the confidence is no share.
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
    """The confidence interval of how far our mean is from a published one.

    Arguments:
      values: one score a seed.
      published: the published mean, in the same unit.
      deviation: the sample standard deviation printed with it, if there is one.
      count: of how many runs; without it, or without a deviation, the published mean counts as exact.
      confidence: between 0 and 1.

    Returns:
      (lower, upper) of ours less theirs, by Welch's t; None where nothing spreads or there are fewer than two values.

    Raises:
      ValueError: a value is not finite, or the confidence is no share.
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
    """The interval of a share of `count` independent draws (Wilson, 1927), with the confidence `CONFIDENCE`. Unlike the
    normal approximation it is right for few draws and near 0 and 1, too.
    """
    square = NORMAL_REACH**2
    center = (share + square / (2 * count)) / (1 + square / count)
    reach = NORMAL_REACH / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return center - reach, center + reach


def fisher(correlation: float, count: int) -> tuple[float, float]:
    """The interval of Pearson's correlation of more than three pairs, with the confidence `CONFIDENCE` (Fisher, 1921):
    its inverse hyperbolic tangent is about normal, with a deviation of `1 / sqrt(count - 3)`.
    """
    center, reach = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, correlation))), NORMAL_REACH / math.sqrt(count - 3)
    return math.tanh(center - reach), math.tanh(center + reach)


def judge(lower: float, upper: float, higher_is_better: bool = True, rounding: float = 0.0) -> str:
    """What the interval of a difference to a published number says.

    Arguments:
      lower, upper: its ends, of ours less theirs.
      higher_is_better: whether a greater score is the better one.
      rounding: how far the number may lie from what it was rounded from.

    Returns:
      "covers" if the interval holds zero, ends included, or may do so but for rounding; else "beats" if all of it is
      better, and "misses" if all of it is worse.
    """
    if lower - rounding <= 0 <= upper + rounding:
        return "covers"
    return "beats" if (lower > 0) == higher_is_better else "misses"


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for how many there are (Holm, 1979).

    Arguments:
      p_values: of m tests.

    Returns:
      `max_{j <= i} min(1, (m - j + 1) p_(j))` for the i-th smallest, in the order given.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def seeds_to_separate(values: Sequence[float], others: Sequence[float], level: float = LEVEL) -> int | None:
    """How many seeds each of two settings needs, so that Welch's test finds a difference as large as theirs, at their
    spreads, with a power of 80% (two-sided).

    Arguments:
      values: one score a seed, of one setting.
      others: one score a seed, of the other.
      level: of the test; with k tests, `LEVEL / k` is enough for Holm's correction, too.

    Returns:
      None where there is no difference, no spread, or more than `MOST_SEEDS` are needed.

    Raises:
      statistics.StatisticsError: fewer than two values on a side.
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
      values: one score a seed, of the changed setting.
      original: one score a seed, of the original one; the seeds need not be the same, and are not paired.
      confidence: of the interval of the difference.

    Returns:
      None where no test is possible: fewer than two values on a side, or no spread on either.

    Raises:
      ValueError: a value is not finite, or the confidence is no share.
    """
    values, original = _checked(values, confidence), _checked(original, confidence)
    if min(len(values), len(original)) < 2 or (np.ptp(values) == 0 and np.ptp(original) == 0):
        return None
    from scipy import special

    (mean, variance), (other_mean, other_variance) = _mean_and_its_variance(values), _mean_and_its_variance(original)
    with np.errstate(all="ignore"):  # of scores too large or too small to be squared: infinity and NaN
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
    """Compares two means by the t-test of the differences of pairs: what both of a pair share, such as the order of the
    batches, is not taken for chance.

    Arguments:
      values: one score a seed, of the changed setting.
      original: of the original one, by the same seeds in the same order.
      confidence: of the interval of the difference.

    Returns:
      None where no test is possible: fewer than two pairs, or all with the same difference but for rounding.

    Raises:
      ValueError: a value is not finite, the confidence is no share, or the numbers of values differ.
    """
    pairs = zip(_checked(values, confidence), _checked(original, confidence), strict=True)
    differences = [value - other for value, other in pairs]
    interval = mean_interval(differences, confidence)
    rounding = 1e-9 * max(map(abs, (*values, *original)), default=0.0)
    if interval is None or np.ptp(differences) <= rounding:
        return None
    from scipy import special

    freedom = len(differences) - 1
    statistic = interval.mean / (statistics.stdev(differences) / math.sqrt(len(differences)))
    p_value = 2 * float(special.stdtr(freedom, -abs(statistic)))
    return Difference(interval.mean, interval.lower, interval.upper, statistic, float(freedom), p_value, confidence)


def _quantile(share: float, freedom: float) -> float:
    """Of Student's t distribution."""
    # Not scipy.stats, which takes most of a second to import: as long as all the rest of a table.
    from scipy import special

    return float(special.stdtrit(freedom, share))


def _mean_and_its_variance(values: Sequence[float]) -> tuple[np.float64, np.float64]:
    """The mean, and the square of its standard error; rounded as in scipy.stats.ttest_ind."""
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
