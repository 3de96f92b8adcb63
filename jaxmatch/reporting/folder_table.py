"""The table of a sweep's folder, made from its records alone."""

import dataclasses
from pathlib import Path

from jaxmatch.errors import WAIT_OR_RESUME, InputError, nearest
from jaxmatch.reporting import FORMATS
from jaxmatch.reporting.records import SweepFolder, notes_file, read_sweep_folder
from jaxmatch.reporting.tables import Table, make_table


def table(directory: Path, format: str = "markdown") -> str:
    """Returns the table of a sweep folder as text, made from its records alone.

    Raises:
      InputError: no sweep was run in the folder, none of its runs has ended, or the format is unknown.
    """
    if format not in FORMATS:
        raise InputError(f'there is no table format "{format}"', remedy=nearest(format, list(FORMATS)))
    return getattr(table_of(read_sweep_folder(directory)), format)()


def table_of(folder: SweepFolder) -> Table:
    """Returns the table of a sweep folder.

    Raises:
      InputError: none of its runs has ended, or the layout in its notes cannot be followed.
    """
    layout = folder.layout
    if not folder.records:
        raise InputError("no run has finished yet", path=folder.path, remedy=WAIT_OR_RESUME)
    if folder.missing:
        have = "has" if len(folder.missing) == 1 else "have"
        note = f"{len(folder.missing)} of {len(folder.runs)} runs {have} not finished"
        if failed := sorted(folder.path.glob("cohorts/*/error.json")):
            note += f"; training failed, as {failed[0]} says"
        layout = dataclasses.replace(layout, notes=(*layout.notes, note))
    try:
        return make_table(list(folder.records.values()), layout, folder.floors)
    except InputError as error:
        raise InputError(error.problem, path=error.path or notes_file(folder.path), remedy=error.remedy) from None
