"""Learning curves: how the dev score of a setting rises with the samples seen, over its seeds."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.reporting.records import by_setting, setting_name
from jaxmatch.reporting.statistics import mean_and_deviation


def curves(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Computes the learning curves of the score that chose each run's checkpoint.

    Arguments:
      records: the records of the runs. Runs that did not finish are left out.

    Returns:
      Plain values, from which `drawings.curves` draws the figure. Each setting has its seeds and its evaluations. An
      evaluation has the samples seen, the mean over the seeds that were still training, their sample standard deviation
      (None for one seed) and their number.

    Raises:
      InputError: no run has finished, or the checkpoints of the runs were chosen by different scores.
    """
    settings = by_setting(records)
    if not settings:
        raise InputError(
            "no run has finished, so there is no learning curve", remedy="run the sweep again to resume it"
        )
    selections = sorted({record["selected_on"] for members in settings for record in members})
    if len(selections) > 1:
        raise InputError(
            f"the runs were chosen by different scores: {', '.join(selections)}", remedy="draw them separately"
        )
    score = selections[0].removeprefix("dev.")
    return {
        "kind": "curves",
        "score": selections[0],
        "settings": [
            {
                "name": setting_name(members[0]),
                "seeds": [record["seed"] for record in members],
                "points": _points(members, score),
            }
            for members in settings
        ],
    }


def _points(members: Iterable[Mapping[str, Any]], score: str) -> list[dict[str, Any]]:
    found: dict[int, list[float]] = {}
    for record in members:
        for entry in record["curve"]:
            value = entry["dev"].get(score)
            if value is not None and math.isfinite(value):
                found.setdefault(entry["samples"], []).append(value)
    points = []
    for samples, values in sorted(found.items()):
        mean, deviation = mean_and_deviation(values)
        points.append({"samples": samples, "mean": mean, "deviation": deviation, "seeds": len(values)})
    return points
