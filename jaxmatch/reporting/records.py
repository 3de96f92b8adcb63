"""Reading the records of runs, and choosing the best of them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxmatch.config.scores import SCORES
from jaxmatch.errors import InputError
from jaxmatch.files import read_json
from jaxmatch.plain_file import check_plain_file
from jaxmatch.reporting.grouping import by_pairs
from jaxmatch.reporting.record_schema import FORMAT, REMEDY, check_curve, check_record


def best_record(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the record of the finished run with the best dev score, the first if several are equal. Returns None if
    no finished run has a dev score.

    Raises:
      InputError: finished runs were scored on different data, or their checkpoints were chosen by different scores.
    """
    records = [record for record in records if record["status"] == "finished"]
    for name, kinds in (
        ("data", set(by_pairs(records, lambda record: record))),
        ("scores", {record["selected_on"] for record in records}),
    ):
        if len(kinds) > 1:
            problem = f"no run is the best on dev: the runs differ in {name}: {', '.join(sorted(kinds))}"
            raise InputError(problem, remedy="name a run: WORKDIR/runs/NAME")

    def merit(record: Mapping[str, Any]) -> float:
        score = record["selected_on"].removeprefix("dev.")
        return record["dev"][score] * (1 if SCORES[score].higher_is_better else -1)

    def has_score(record: Mapping[str, Any]) -> bool:
        return (record["dev"] or {}).get(record["selected_on"].removeprefix("dev.")) is not None

    return max(filter(has_score, records), key=merit, default=None)


def short_commit(commit: str | None, digits: int = 8) -> str:
    """Returns the first digits of a record's commit, and the "+" of changed code."""
    return commit[:digits] + "+" * commit.endswith("+") if commit else ""


def placed(record: Mapping[str, Any], variant: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record with the place that its run has in the grid now.

    A run keeps its name when the grid gains an axis or a variant is renamed. Its record file keeps the place that the
    run had when it was trained.
    """
    return {**record, "variant": variant, "overrides": dict(overrides)}


def read_record(path: Path) -> dict[str, Any]:
    """Reads a record from its file.

    Raises:
      InputError: the file does not exist or is not a record, or a field is missing or damaged.
    """
    check_plain_file(path, REMEDY)
    try:
        record = read_json(path)
    except FileNotFoundError:
        raise InputError("there is no record", path=path, remedy="give a run folder of a sweep") from None
    except (OSError, ValueError) as error:
        raise InputError(f"the record cannot be read ({error})", path=path, remedy=REMEDY) from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(
            f"this is not a record of format {FORMAT}", path=path, remedy="remove it, or use the version that wrote it"
        )
    try:
        check_record(record)
        check_curve(record)
    except InputError as error:
        raise InputError(error.problem, path=path, remedy=REMEDY) from None
    if record["selected_on"].removeprefix("dev.") not in SCORES:
        raise InputError(
            f"field 'selected_on' is {record['selected_on']!r}, which is not a dev score", path=path, remedy=REMEDY
        )
    return record
