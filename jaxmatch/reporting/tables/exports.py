"""A table for machines: CSV and JSON with unrounded numbers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxmatch.printable import printable_json, without_nan
from jaxmatch.reporting.formats import csv_text
from jaxmatch.reporting.layout import OWN, VARIANT, Cell, Content, Published
from jaxmatch.reporting.records import scores_of
from jaxmatch.reporting.statistics import CONFIDENCE
from jaxmatch.reporting.tables import comparisons

_RUN_FIELDS = ("run", "seed", "status", "parameters", "selected_on", "selected_at_samples", "diverged_at_samples")
_RUN_DETAILS = ("times", "device", "commit", "versions", "data")


def as_csv(table: Content) -> str:
    """Returns a header and one line per cell, even if the printed table is pivoted.

    The columns are the grid keys, "parameters", the numbers of finished and of diverged runs (also of dropped runs, if
    there are any), and several columns per score. A score has its mean, its sample standard deviation, the number of
    runs that have it, and the ends of the mean's 95% confidence interval. If the layout names an original, a score also
    has the difference from it and the p value of that difference, as it is and corrected by Holm. If a published row
    has a cell's settings, a score also has the published number, as a share like ours, and what the interval of the
    difference says about it. Other published rows are left out. Floors come last, with their means alone. Without a
    column "variant", their names are in an additional column, "model".

    Undefined values are empty. Accuracies and similar scores are shares of 1, not percent.
    """
    keys = [*table.keys, *([table.layout.columns] if table.layout.columns else [])]
    names = ["mean", "std", "n", "lower", "upper"]
    names += ["difference", "p_value", "p_holm"] if table.layout.original else []
    differences, published_by_place = comparisons.differences(table), comparisons.published_by_place(table)
    names += ["published", "verdict"] if published_by_place else []
    any_dropped = any(cell.dropped for _, _, cell in comparisons.cells(table))
    statuses = ["finished", "diverged", *(["dropped"] if any_dropped else [])]
    # If no column contains the names of floors, one is added.
    named = bool(table.floors) and VARIANT not in keys
    rows = [
        [
            *(["model"] if named else []),
            *keys,
            "parameters",
            *statuses,
            *(f"{score}.{name}" for score in table.layout.scores for name in names),
        ]
    ]
    for place, settings, cell in comparisons.cells(table):
        sizes = dict.fromkeys(record["parameters"] for record in cell.records)
        counts = [";".join(map(str, sizes)), *(len(getattr(cell, status)) for status in statuses)]
        numbers: list[Any] = []
        for score in cell.scores:
            entry = _score_as_json(cell, score, differences.get((place, score)), published_by_place.get(place))
            flat = entry | entry.get("difference", {}) | (entry["interval"] or {})
            flat |= {
                "published": entry.get("published", {}).get("value"),
                "verdict": entry.get("published", {}).get("verdict"),
            }
            numbers += [flat.get(name) for name in names]
        rows.append([*([OWN] if named else []), *settings.values(), *counts, *numbers])
    for floor in table.floors:
        means = [floor.scores.get(score) if name == "mean" else None for score in table.layout.scores for name in names]
        settings = [floor.title if key == VARIANT else None for key in keys]
        rows.append([*([floor.title] if named else []), *settings, floor.parameters, *(None for _ in statuses), *means])
    return csv_text(rows)


def as_json(table: Content) -> str:
    """Returns layout, caption, statistics, and each run with all its scores, samples, times, device, commit and
    versions.

    Undefined numbers are null.
    """
    differences, published_by_place = comparisons.differences(table), comparisons.published_by_place(table)
    content = {
        "title": table.layout.title,
        "caption": table.caption,
        "notes": table.layout.notes,
        "keys": table.keys,
        "columns": table.layout.columns,
        "scores": table.layout.scores,
        "original": table.layout.original,
        "rows": [
            {"settings": settings, **_cell_as_json(place, cell, differences, published_by_place)}
            for place, settings, cell in comparisons.cells(table)
        ],
        **({"floors": [dataclasses.asdict(floor) for floor in table.floors]} if table.floors else {}),
        "published": [dataclasses.asdict(published) for published in table.layout.published],
    }
    return printable_json(without_nan(content), indent=1, allow_nan=False) + "\n"


def _score_as_json(
    cell: Cell, score: str, difference: comparisons.Difference | None, published: Published | None
) -> dict[str, Any]:
    summary = cell.scores[score]
    interval = comparisons.interval(summary)
    entry: dict[str, Any] = {
        "mean": summary.mean,
        "std": summary.deviation,
        "n": len(summary.values),
        "interval": interval and {"lower": interval.lower, "upper": interval.upper, "confidence": CONFIDENCE},
        "values": {str(seed): value for seed, value in summary.values.items()},
    }
    if difference is not None:
        test = (
            {**dataclasses.asdict(difference.test), "confidence": CONFIDENCE} if difference.test else {"method": None}
        )
        entry["difference"] = {**test, "difference": difference.value, "p_holm": difference.corrected}
    if published is not None and score in published.scores:
        text = published.scores[score]
        entry["published"] = {
            "label": published.label,
            "text": text,
            "value": comparisons.published_number(score, text)[0],
            **_verdict(cell, score, published),
        }
    return entry


def _verdict(cell: Cell, score: str, published: Published) -> dict[str, Any]:
    found = comparisons.to_published(cell, score, published)
    if found is None:
        return {"verdict": None}
    return {"verdict": found[0], "difference_to_it": {"lower": found[1][0], "upper": found[1][1]}}


def _cell_as_json(
    place: comparisons.Place,
    cell: Cell,
    differences: Mapping[tuple[comparisons.Place, str], comparisons.Difference],
    published_by_place: Mapping[comparisons.Place, Published],
) -> dict[str, Any]:
    scores = {
        score: _score_as_json(cell, score, differences.get((place, score)), published_by_place.get(place))
        for score in cell.scores
    }
    runs = []
    for record in sorted(cell.records, key=lambda each: each["seed"]):
        parts = {part: scores_of(record, part) for part in ("dev", "test", "best_on_test")}
        details = {field: record.get(field) for field in (*_RUN_FIELDS, *_RUN_DETAILS)}
        runs.append(details | {"scores": parts})
    counts = {"finished": len(cell.finished), "diverged": len(cell.diverged)}
    counts |= {"dropped": len(cell.dropped)} if cell.dropped else {}
    return {**counts, "scores": scores, "runs": runs}
