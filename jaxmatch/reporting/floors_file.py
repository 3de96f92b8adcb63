"""The file of a sweep's folder that holds its floors (baselines/): rows of its table that have no runs."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.files import read_json
from jaxmatch.plain_file import check_plain_file
from jaxmatch.reporting.layout import FloorRow
from jaxmatch.workdir import FLOORS_FILE

FORMAT = 1
_REMEDY = "remove it, and run the sweep again"
_PARTS = ("dev", "test", "times")


def read_floors(directory: Path) -> Mapping[str, Any] | None:
    """Reads the floors file: {"fingerprint", "rows", ...}. Returns None if the file does not exist.

    Raises:
      InputError: the file is damaged, or has the format of another version.
    """
    file = Path(directory) / FLOORS_FILE
    check_plain_file(file, _REMEDY)
    try:
        found = read_json(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"the floors cannot be read ({error})", path=file, remedy=_REMEDY) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"this is not a floors file of format {FORMAT}", path=file, remedy=_REMEDY)
    rows = found.get("rows")
    if not isinstance(found.get("fingerprint"), str) or not isinstance(rows, list):
        raise InputError("the floors have no fingerprint or no rows", path=file, remedy=_REMEDY)
    for number, row in enumerate(rows, start=1):
        if problem := _problem(row):
            raise InputError(f"floor {number} {problem}", path=file, remedy=_REMEDY)
    return found


def floor_rows(directory: Path, names: Sequence[str]) -> tuple[FloorRow, ...]:
    """Returns the rows of the named floors, in the order of the names. Floors that the file does not contain are left
    out.

    Raises:
      InputError: as in `read_floors`.
    """
    found = read_floors(directory) if names else None
    rows = {row["name"]: row for row in found["rows"]} if found else {}
    return tuple(_row(rows[name]) for name in names if name in rows)


def _row(row: Mapping[str, Any]) -> FloorRow:
    scores = {f"{part}.{name}": value for part in _PARTS for name, value in (row[part] or {}).items()}
    known = {name: float(value) for name, value in scores.items() if value is not None}
    return FloorRow(row["title"], row["parameters"], known, row.get("pretrained", False))


def _problem(row: Any) -> str:
    """Returns what is wrong with a row, or "" if it is valid."""
    if not isinstance(row, Mapping):
        return "is not a JSON object"
    for field, kind in (("name", str), ("title", str), ("parameters", int)):
        if not isinstance(row.get(field), kind) or isinstance(row[field], bool):
            return f"has no {field}"
    if not isinstance(row.get("pretrained", False), bool):
        return "does not say whether it is pretrained"
    for part in _PARTS:
        scores = row.get(part, "")
        if scores is not None and not isinstance(scores, Mapping):
            return f"has no {part}"
        for name, value in (scores or {}).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if value is not None and not number:
                return f"has the {part}.{name} {json.dumps(value)[:40]}"
    return ""
