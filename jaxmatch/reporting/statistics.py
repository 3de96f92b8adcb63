"""Statistics of scores over seeds, and over the pairs of a test set.

Intervals and tests over seeds assume that the scores of the seeds are independent and roughly normal. Seeds show how
much a score depends on chance in training, not how much it depends on which pairs are in the test set. For an accuracy,
`wilson` shows the latter, and for Pearson's correlation `fisher`.
"""

import bisect
import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence

import numpy as np

CONFIDENCE = 0.95  # of all intervals
NORMAL_QUANTILE = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # in standard deviations
LEVEL = 1 - CONFIDENCE
POWER, MOST_SEEDS = 0.8, 10_000
RESAMPLES, SEED = 5_000, 0  # of the bootstrap
METHOD, PAIRED = "Welch's t-test, two-sided", "paired t-test, two-sided"
ASSUMPTION = "scores of seeds taken as independent and roughly normal"


# Intervals


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
    """
    if len(values) < 2:
        return None
    mean, deviation = mean_and_deviation(values)
    margin = _t_quantile(len(values) - 1) * deviation / math.sqrt(len(values))
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
    """
    if len(values) < 2:
        return None
    variances = [(statistics.variance(values) / len(values), len(values) - 1)]
    if deviation and count and count > 1:
        variances.append((deviation**2 / count, count - 1))
    total = sum(variance for variance, _ in variances)
    if not total:
        return None
    freedom = total**2 / sum(variance**2 / own for variance, own in variances)
    margin = _t_quantile(freedom) * math.sqrt(total)
    difference = statistics.fmean(values) - published
    return difference - margin, difference + margin


def wilson(share: float, count: int) -> tuple[float, float]:
    """Computes the interval of a share of `count` independent draws (Wilson, 1927), with the confidence `CONFIDENCE`.
    Unlike the normal approximation, it is also right for few draws and near 0 and 1.

    (SciPy's takes a whole number of hits; a share that is a mean over seeds has none.)
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


def _t_quantile(freedom: float, level: float = LEVEL) -> float:
    """Returns the limit that the absolute value of Student's t exceeds with the probability `level`."""
    from scipy import special  # `scipy.stats` takes most of a second to import

    return float(special.stdtrit(freedom, 1 - level / 2))


# Tests


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


def welch(values: Sequence[float], original: Sequence[float]) -> MeanDifference | None:
    """Compares two means by Welch's t-test, which lets the two spreads differ (Welch, 1947).

    Arguments:
      values: the scores of the changed setting, one per seed.
      original: the scores of the original setting, one per seed. The seeds need not be the same, and are not paired.

    Returns:
      The difference, or None if no test is possible: a side has fewer than two values, or neither side has a spread.
    """
    if min(len(values), len(original)) < 2 or (np.ptp(values) == 0 and np.ptp(original) == 0):
        return None
    # The squared standard errors of both means; the degrees of freedom follow Welch and Satterthwaite.
    one, other = (float(np.var(side, ddof=1)) / len(side) for side in (values, original))
    freedom = (one + other) ** 2 / (one**2 / (len(values) - 1) + other**2 / (len(original) - 1))
    difference = statistics.fmean(values) - statistics.fmean(original)
    return _mean_difference(difference, math.sqrt(one + other), freedom, METHOD)


def paired(values: Sequence[float], original: Sequence[float]) -> MeanDifference | None:
    """Compares two means by the t-test of the differences of pairs. It does not count as chance what both of a pair
    share, such as the order of the batches.

    Arguments:
      values: the scores of the changed setting, one per seed.
      original: the scores of the original setting, by the same seeds in the same order.

    Returns:
      The difference, or None if no test is possible: fewer than two pairs, or equal differences but for rounding.
    """
    differences = [value - other for value, other in zip(values, original, strict=True)]
    if len(differences) < 2 or np.ptp(differences) <= 1e-9 * max(map(abs, (*values, *original))):
        return None
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return _mean_difference(statistics.fmean(differences), error, len(differences) - 1, PAIRED)


def _mean_difference(difference: float, error: float, freedom: float, method: str) -> MeanDifference:
    """Returns the t-test of a difference with a standard error.

    Arguments:
      difference: the difference of the means.
      error: its standard error, above 0.
      freedom: the degrees of freedom.
      method: `METHOD` or `PAIRED`.
    """
    from scipy import special

    t, reach = difference / error, _t_quantile(freedom) * error
    p_value = 2 * float(special.stdtr(freedom, -abs(t)))
    return MeanDifference(difference, difference - reach, difference + reach, t, freedom, p_value, method)


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


# Numbers of seeds


def seeds_to_separate(values: Sequence[float], others: Sequence[float], level: float = LEVEL) -> int | None:
    """Computes how many seeds each of two settings needs, so that Welch's test finds a difference as large as theirs,
    at their spreads, with a power of 80% (two-sided).

    Arguments:
      values: the scores of one setting, one per seed; two at least.
      others: the scores of the other setting, one per seed; two at least.
      level: the level of the test. With k tests, `LEVEL / k` is enough for Holm's correction, too.

    Returns:
      The number of seeds. None if there is no difference or no spread, or if more than `MOST_SEEDS` are needed.
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
      differences: for each shared seed, the score of one setting minus that of the other; two at least.
      level: the level of the test.

    Returns:
      The number of shared seeds, or None as in `seeds_to_separate`.
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
        # The other tail is left out: at a power of 80% it is negligible, and SciPy may give NaN for it.
        return float(1 - special.nctdtr(degrees, shift, _t_quantile(degrees, level)))

    if power(MOST_SEEDS) < POWER:
        return None
    return bisect.bisect_left(range(2, MOST_SEEDS), POWER, key=power) + 2


# Resampling over seeds, in the terms of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the
# Statistical Precipice"


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Computes the percentile interval of the mean over seeds drawn with replacement. It is None for fewer than two
    values.
    """
    if len(values) < 2:
        return None
    return _middle(np.asarray(values)[_drawn(len(values))].mean(axis=1))


def probability_of_improvement(values: Sequence[float], others: Sequence[float]) -> float:
    """Computes how often a run of `values` scores above a run of `others`. Ties count half (Mann and Whitney's U
    divided by the number of pairs).
    """
    return float(_wins(values, others).mean())


def improvement_interval(values: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """Computes the percentile interval of `probability_of_improvement`. The seeds of each setting are drawn separately.
    Returns None if either setting has fewer than two values.
    """
    if min(len(values), len(others)) < 2:
        return None
    times, times_of_others = _times_drawn(len(values)), _times_drawn(len(others), SEED + 1)
    won = (times @ _wins(values, others) * times_of_others).sum(axis=1)
    return _middle(won / (len(values) * len(others)))


def _wins(values: Sequence[float], others: Sequence[float]) -> np.ndarray:
    """Returns <float64>[values, others]: 1 where the value is greater, 0.5 where they tie, and 0 elsewhere."""
    return np.heaviside(np.subtract.outer(np.asarray(values), np.asarray(others)), 0.5)


def _drawn(count: int, seed: int = SEED) -> np.ndarray:
    """Returns <int64>[resamples, count]: indices drawn with replacement."""
    return np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))


def _times_drawn(count: int, seed: int = SEED) -> np.ndarray:
    """Returns <float64>[resamples, count]: how often each index is drawn. Memory is linear in the number of runs."""
    times = np.zeros((RESAMPLES, count))
    np.add.at(times, (np.arange(RESAMPLES)[:, None], _drawn(count, seed)), 1)
    return times


def _middle(resampled: np.ndarray) -> tuple[float, float]:
    lower, upper = np.quantile(resampled, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return float(lower), float(upper)
