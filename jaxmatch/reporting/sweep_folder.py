"""The folder of a sweep, as it is read: the layout of its table, its runs, and the records of the runs that ended."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, report_damage
from jaxmatch.files import read_json
from jaxmatch.reporting.floors_file import floor_rows
from jaxmatch.reporting.layout import FloorRow
from jaxmatch.reporting.record_schema import REMEDY
from jaxmatch.reporting.records import placed, read_record
from jaxmatch.reporting.tables import Published, TableLayout
from jaxmatch.workdir import Workdir


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    """The sweep that was started last in a folder.

    Attributes:
      path: the folder.
      name: the name of the sweep.
      layout: the layout of its table.
      runs: the name of each planned run -> {"variant", "overrides", "seed"}, which is empty if the folder does not
        store it.
      records: name -> record, for the runs that ended. They are in the order of `runs`, and each has the place that it
        has there.
      analyses: command -> its options, for the analyses that the sweep requests.
      plan: the plan of all runs, in words; "" if the folder does not store it.
      floors: lines of the table that have no runs.
      command: the command that started the sweep, or "".
    """

    path: Path
    name: str
    layout: TableLayout
    runs: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, Mapping[str, Any]]
    analyses: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    plan: str = ""
    floors: tuple[FloorRow, ...] = ()
    command: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the runs that have not ended."""
        return tuple(run for run in self.runs if run not in self.records)


def notes_file(directory: Path) -> Path:
    """Returns the path of the file with the layout of a sweep's table and the names of its runs."""
    return Path(directory) / "sweep.json"


def name_of_sweep(directory: Path) -> str | None:
    """Returns the name of the sweep that was started in a folder, or None if there was no sweep or sweep.json is
    damaged.
    """
    file = notes_file(directory)
    try:
        return read_json(file)["name"]
    except (OSError, ValueError, KeyError, TypeError):  # an InputError is a ValueError
        return None


def _place(place: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run's place in the grid, which is empty if an earlier version did not write it."""
    return (
        {"variant": str(place["variant"]), "overrides": dict(place["overrides"]), "seed": int(place["seed"])}
        if place
        else {}
    )


def read_sweep_folder(directory: Path) -> SweepFolder:
    """Reads a sweep's folder.

    Raises:
      InputError: no sweep was run in the folder, or a file is damaged.
    """
    directory = Path(directory)
    file = notes_file(directory)
    if not file.exists():
        raise InputError("no sweep was run in this folder", path=directory, remedy="give the --workdir of a sweep")
    with report_damage(file, "run the sweep again to renew it"):
        notes = read_json(file)
        layout = dict(notes["layout"])
        for rows in ("published", "ensembles"):
            layout[rows] = tuple(Published(**row) for row in layout.get(rows, ()))
        layout = TableLayout(**{name: tuple(v) if isinstance(v, list) else v for name, v in layout.items()})
        places = notes.get("places", {})
        runs = {str(run): _place(places.get(run, {})) for run in notes["runs"]}
        name = str(notes.get("name", directory.name))
        floors = tuple(map(str, notes.get("floors", ())))
        analyses = {str(each): dict(options) for each, options in notes.get("analyses", {}).items()}
    folder = Workdir(directory)
    files = {run: folder.run_folder(run) / "record.json" for run in runs}
    records = {run: read_record(file) for run, file in files.items() if file.exists()}
    for run, record in records.items():
        if record["run"] != run:
            raise InputError(f"this is the record of the run {record['run']}", path=files[run], remedy=REMEDY)
        if place := runs[run]:
            records[run] = placed(record, place["variant"], place["overrides"])
    words = {each: str(notes.get(each, "")) for each in ("plan", "command")}
    return SweepFolder(directory, name, layout, runs, records, analyses, floors=floor_rows(directory, floors), **words)
