"""Comparable times: candidates measured in turn within one run, and their medians, quartiles and ratios."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np


def in_turn(candidates: Mapping[str, Callable[[], float | None]], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """Times each candidate once a round. The order is reversed every other round, so that a drift of the machine's
    speed affects all candidates alike.

    Arguments:
      candidates: name -> a function that does the work once and waits for its end. It may measure and return the
        seconds itself, if a part of what it does must not count.
      rounds: the number of rounds that count.
      warm: the number of rounds before those that count.

    Returns:
      Name -> the seconds of each round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(warm + rounds):
        names = list(candidates)
        for name in names if number % 2 == 0 else reversed(names):
            start = time.perf_counter()
            reported = candidates[name]()
            measured = time.perf_counter() - start if reported is None else reported
            if number >= warm:
                seconds[name].append(measured)
    return seconds


def spread(values: Sequence[float]) -> dict[str, float]:
    """Returns {"median", "lower", "upper"}: the median and the quartiles around it."""
    lower, median, upper = np.quantile(np.asarray(values, np.float64), (0.25, 0.5, 0.75))
    return {"median": float(median), "lower": float(lower), "upper": float(upper)}


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, float]:
    """Returns the `spread` of the ratios of values that were measured in the same round."""
    return spread(np.asarray(numerators, np.float64) / np.asarray(denominators, np.float64))


def verdict(goal: str, met: bool | None) -> str:
    """Returns a goal with its outcome, such as "≥ 3: missed", or the goal alone if it was not measured."""
    return goal if met is None else f"{goal}: {'met' if met else 'missed'}"
