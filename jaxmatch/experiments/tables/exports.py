"""A table for machines: CSV and JSON, numbers unrounded."""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from jaxmatch.experiments.tables import fields
from jaxmatch.experiments.tables.parts import Cell, Content

_RUN_FIELDS = ("run", "seed", "status", "parameters", "selected_on", "selected_at_samples", "diverged_at_samples")
_RUN_DETAILS = ("times", "device", "commit", "versions", "data")


def _cells(table: Content) -> Iterator[tuple[dict[str, Any], Cell]]:
    """The cells that have runs, each with all its settings, the pivoted one included."""
    for row in table.rows:
        for value, cell in zip(table.pivot, row.cells, strict=True):
            if cell is not None:
                yield {**row.settings, **({table.layout.columns: value} if table.layout.columns else {})}, cell


def as_csv(table: Content) -> str:
    """One line a cell below a header, also where the printed table is pivoted; published rows are left out.

    The columns: the grid keys, "parameters", the numbers of finished and of diverged runs, and for each score its mean,
    its sample standard deviation and the number of runs that have it. What is undefined is empty. Accuracies and
    such are shares of 1, not percent.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [*table.keys, *([table.layout.columns] if table.layout.columns else [])]
    statistics = [f"{score}.{name}" for score in table.layout.scores for name in ("mean", "std", "n")]
    writer.writerow([*keys, "parameters", "finished", "diverged", *statistics])
    for settings, cell in _cells(table):
        sizes = dict.fromkeys(record["parameters"] for record in (*cell.finished, *cell.diverged))
        numbers: list[Any] = []
        for summary in cell.scores.values():
            numbers += [summary.mean, summary.deviation, len(summary.values)]
        counts = [";".join(map(str, sizes)), len(cell.finished), len(cell.diverged)]
        writer.writerow([*settings.values(), *counts, *numbers])
    return text.getvalue()


def as_json(table: Content) -> str:
    """Layout, caption, statistics, and each run with all its scores, samples, times, device, commit and versions.

    Undefined numbers are null.
    """
    content = {
        "title": table.layout.title,
        "caption": table.caption,
        "notes": table.layout.notes,
        "keys": table.keys,
        "columns": table.layout.columns,
        "scores": table.layout.scores,
        "rows": [{"settings": settings, **_cell_as_json(cell)} for settings, cell in _cells(table)],
        "published": [dataclasses.asdict(published) for published in table.layout.published],
    }
    return json.dumps(_without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _cell_as_json(cell: Cell) -> dict[str, Any]:
    scores = {
        score: {
            "mean": summary.mean,
            "std": summary.deviation,
            "n": len(summary.values),
            "values": {str(seed): value for seed, value in summary.values.items()},
        }
        for score, summary in cell.scores.items()
    }
    runs = []
    for record in sorted((*cell.finished, *cell.diverged), key=lambda each: each["seed"]):
        parts = {part: fields.scores_of(record, part) for part in ("dev", "test", "best_on_test")}
        details = {field: record.get(field) for field in (*_RUN_FIELDS, *_RUN_DETAILS)}
        runs.append(details | {"scores": parts})
    return {"finished": len(cell.finished), "diverged": len(cell.diverged), "scores": scores, "runs": runs}


def _without_nan(value: Any) -> Any:
    """JSON has neither NaN nor infinity: null stands for them."""
    if isinstance(value, Mapping):
        return {str(key): _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
