"""A score against one setting of a sweep's grid, over the seeds. CSRAN's Figures 2 and 3 draw accuracy against stacked
layers.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.reporting.records import by_pairs, by_setting, setting_name
from jaxmatch.reporting.statistics import mean_and_deviation

PARTS = ("dev", "test")


def scores_against(records: Iterable[Mapping[str, Any]], axis: str, score: str = "") -> dict[str, Any]:
    """Computes one curve for each combination of the other settings.

    Arguments:
      records: the records of the runs, of one sweep or of several data sets. Runs that diverged or were dropped are
        left out.
      axis: a setting of the grid whose values are numbers, such as "model.stacked_layers", or its last part alone.
      score: "dev." or "test." and the name of a score. The default is the dev score that chose the checkpoints.

    Returns:
      Plain values, from which `drawings.scores` draws the figure. Each curve has its name and, for each value of the
      axis, the mean of the checkpoints' scores, their sample standard deviation (None for one seed) and the seeds.

    Raises:
      InputError: a run is there twice, no run has finished, the grid has no such axis, a value of the axis is not a
        number, a run does not have the score or has an undefined one, two settings have the same place, or no score is
        given and the checkpoints were chosen by different ones.
    """
    records = list(records)
    run, times = next(iter(collections.Counter(record["run"] for record in records).most_common(1)), ("", 0))
    if times > 1:
        raise InputError(f"run {run} is in {times} of the folders", remedy="leave all but one of them out")
    settings = by_setting(records)
    if not settings:
        raise InputError("no run has finished, so there is no score", remedy="run the sweep again to resume it")
    axis = _axis(settings, axis)
    curves: dict[str, dict[float, dict[str, Any]]] = {}
    selections = sorted({record["selected_on"] for members in settings for record in members})
    if not score and len(selections) > 1:
        raise InputError(
            f"the runs were chosen by different scores: {', '.join(selections)}", remedy="say which with --score"
        )
    score = score or selections[0]
    data_of = {
        members[0]["run"]: name
        for name, found in by_pairs(settings, lambda members: members[0]).items()
        for members in found
    }
    several = len(set(data_of.values())) > 1
    for members in settings:
        first = members[0]
        value = first["overrides"].get(axis)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise InputError(
                f"{axis} is {value!r} in run {first['run']}, which is not a number",
                remedy="draw against another setting",
            )
        others = {key: each for key, each in first["overrides"].items() if key != axis}
        name = setting_name({**first, "overrides": others})
        points = curves.setdefault(f"{data_of[first['run']]}: {name}" if several else name, {})
        if value in points:
            raise InputError(
                f"two settings have {axis}={value}, one of them that of run {first['run']}",
                remedy="move the runs of one of the two away",
            )
        points[value] = {"value": value, **_point(members, score)}
    return {
        "kind": "scores",
        "axis": axis,
        "score": score,
        "curves": [
            {"name": name, "points": [points[value] for value in sorted(points)]} for name, points in curves.items()
        ],
    }


def _axis(settings: Sequence[Sequence[Mapping[str, Any]]], name: str) -> str:
    """Returns the grid's own name of the axis."""
    known = sorted({key for members in settings for key in members[0]["overrides"]})
    found = [key for key in known if name in (key, key.rpartition(".")[2])]
    if len(found) != 1:
        problem = f"{name!r} is {'more than one axis' if found else 'not an axis'} of this sweep's grid"
        remedy = f"its axes are {', '.join(known)}" if known else "draw its learning curves: leave --against out"
        raise InputError(problem, remedy=remedy)
    return found[0]


def _point(members: Sequence[Mapping[str, Any]], score: str) -> dict[str, Any]:
    part, _, name = score.partition(".")
    values = []
    for record in members:
        scores = (record.get(part) or {}) if part in PARTS else {}
        value = scores.get(name)
        if value is None and name in scores:
            raise InputError(f"the score {score!r} of run {record['run']} is undefined", remedy="draw another: --score")
        if value is None:
            known = ", ".join(f"{one}.{each}" for one in PARTS for each in sorted(record.get(one) or {}))
            raise InputError(f"run {record['run']} has no score {score!r}", remedy=f"its scores are {known}")
        values.append(value)
    mean, deviation = mean_and_deviation(values)
    return {"mean": mean, "deviation": deviation, "seeds": [record["seed"] for record in members]}
