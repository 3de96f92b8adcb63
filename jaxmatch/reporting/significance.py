"""How sure a difference between seeds is: confidence intervals of means, and Welch's t-test.

Both take the scores of the seeds as independent and roughly normal. That is all they take into account: seeds say how
much a score depends on chance in training, not how much it depends on which pairs the test set holds.
"""

import dataclasses
import math
import statistics
import warnings
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from jaxmatch.errors import InputError

CONFIDENCE = 0.95
METHOD = "Welch's t-test, two-sided"
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
    """How the mean of some values differs from that of others, by Welch's t-test.

    Attributes:
      difference: the mean of the values less the mean of the others.
      lower, upper: its confidence interval.
      statistic: Welch's t.
      degrees_of_freedom: of t, by Welch and Satterthwaite.
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
    """The mean, and the sample standard deviation with n - 1 in its denominator; None for a single value."""
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
    from scipy import stats  # takes half a second to import, which a table without intervals need not wait

    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    reach = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * deviation / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach, confidence, len(values))


def judge(interval: Interval, published: float, higher_is_better: bool = True, rounding: float = 0.0) -> str:
    """What an interval says about a published number.

    Arguments:
      interval: of the mean of our scores.
      published: the number, in the same unit.
      higher_is_better: whether a greater score is the better one.
      rounding: how far the number may lie from what it was rounded from.

    Returns:
      "covers" if the number lies in the interval, ends included, or may have been rounded from one that does; else
      "beats" if all of the interval is better than it, and "misses" if all of it is worse.
    """
    if interval.lower - rounding <= published <= interval.upper + rounding:
        return "covers"
    return "beats" if (interval.mean > published) == higher_is_better else "misses"


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
    from scipy import stats

    with warnings.catch_warnings():
        # A side whose seeds all agree is no loss of precision.
        warnings.filterwarnings("ignore", "Precision loss occurred", RuntimeWarning)
        result = stats.ttest_ind(values, original, equal_var=False)
    interval = result.confidence_interval(confidence)
    return Difference(
        difference=statistics.fmean(values) - statistics.fmean(original),
        lower=float(interval.low),
        upper=float(interval.high),
        statistic=float(result.statistic),
        degrees_of_freedom=float(result.df),
        p_value=float(result.pvalue),
        confidence=confidence,
    )


def against_original(
    rows: Mapping[str, Sequence[float]], original: str = "original", confidence: float = CONFIDENCE
) -> dict[str, Difference | None]:
    """Every row of an ablation against the original one.

    Arguments:
      rows: row -> one score a seed.
      original: the row that the others are held to.
      confidence: of the intervals.

    Returns:
      The other rows, in their order -> `welch`.

    Raises:
      InputError: there is no such row.
    """
    if original not in rows:
        raise InputError(
            f"there is no row {original!r} to compare with", remedy=f"name one of {', '.join(map(str, rows))}"
        )
    return {row: welch(values, rows[original], confidence) for row, values in rows.items() if row != original}


def _checked(values: Sequence[float], confidence: float) -> list[float]:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    values = [float(value) for value in values]
    if not all(map(math.isfinite, values)):
        raise ValueError("a score that is not finite has no place in a mean; leave diverged runs out")
    return values
