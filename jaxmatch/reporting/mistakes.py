"""The worst predictions of a run on dev, which training saved next to its record (training/mistakes.py)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxmatch.errors import report_damage
from jaxmatch.files import read_json
from jaxmatch.reporting.record_schema import REMEDY
from jaxmatch.workdir import MISTAKES_FILE, Workdir

_NUMBER = (int, float)
_TEXTS = {"text_a": str, "text_b": str}
# Task -> the fields of a row.
_ROWS: dict[str, dict[str, Any]] = {
    "classification": {**_TEXTS, "label": str, "answer": str, "probability": _NUMBER},
    "regression": {**_TEXTS, "label": _NUMBER, "answer": _NUMBER},
    "ranking": {**_TEXTS, "rank": int, "candidates": int, "preferred": str},
}


def read_mistakes(directory: Path, run: str) -> Mapping[str, Any] | None:
    """Reads the mistakes of a run. Returns None if it has no file of mistakes, as in folders of version 0.1.0.

    Raises:
      InputError: the file is damaged.
    """
    file = Workdir(directory).run_folder(run) / MISTAKES_FILE
    if not file.exists():
        return None
    with report_damage(file, REMEDY):
        found = read_json(file)
        _check(found)
    return found


def _check(found: Any) -> None:
    fields = _ROWS[found["task"]]
    for row in found["worst"]:
        for name, kind in fields.items():
            if not isinstance(row[name], kind):
                raise TypeError(f"{name} cannot be {row[name]!r}")
    if not isinstance(found["pairs"], int):
        raise TypeError("pairs is not a number")
    if not isinstance(found["split"], str):
        raise TypeError("split is not a text")
    if found["task"] == "classification":
        labels, counts = found["labels"], found["confusion"]
        if [len(row) for row in counts] != [len(labels)] * len(labels):
            raise ValueError("confusion is not a square matrix of the labels")
        if not all(isinstance(count, int) for row in counts for count in row):
            raise TypeError("confusion has a value that is not a count")
