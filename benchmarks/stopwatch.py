"""Times that can be compared: things taken in turn within one run, medians, quartiles, ratios of neighbours."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np


def in_turn(candidates: Mapping[str, Callable[[], float | None]], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """Times each candidate once a round, the order reversed every other round, so that a drift of the machine meets all
    alike.

    Arguments:
      candidates: name -> does the work once and waits for its end. It may time itself and give the seconds, where part
        of what it does must not count.
      rounds: how often.
      warm: rounds before those that count.

    Returns:
      name -> seconds of each round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(warm + rounds):
        names = list(candidates)
        for name in names if number % 2 == 0 else reversed(names):
            start = time.perf_counter()
            said = candidates[name]()
            measured = time.perf_counter() - start if said is None else said
            if number >= warm:
                seconds[name].append(measured)
    return seconds


def spread(values: Sequence[float]) -> dict[str, float]:
    """{"median", "lower", "upper"}: the median and the quartiles around it."""
    lower, median, upper = np.quantile(np.asarray(values, np.float64), (0.25, 0.5, 0.75))
    return {"median": float(median), "lower": float(lower), "upper": float(upper)}


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, float]:
    """`spread` of the ratios of values measured in the same round."""
    return spread(np.asarray(numerators, np.float64) / np.asarray(denominators, np.float64))


def verdict(goal: str, met: bool | None) -> str:
    """A goal with what became of it: "≥ 3: missed"; alone where it was not measured."""
    return goal if met is None else f"{goal}: {'met' if met else 'missed'}"
