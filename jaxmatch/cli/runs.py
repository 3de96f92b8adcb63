"""The records of a sweep's folder."""

import re
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError

# Of a printed table.
_LONGEST_NAME = 60


def slug(setting: str) -> str:
    """A setting's name as part of a file's."""
    return re.sub(r"[^a-z0-9]+", "-", setting.lower()).strip("-")[:_LONGEST_NAME]


def records_of(directory: Path) -> list[dict[str, Any]]:
    """What the finished and diverged runs left: of the sweep that was started last there, as its table shows them, or
    of all the runs in a folder of which nothing but runs was kept.

    Raises:
      InputError: there are none, or one is damaged.
    """
    from jaxmatch.reporting.records import read_record
    from jaxmatch.reporting.sweep_folder import read_sweep_folder

    if (directory / "sweep.json").exists():
        records = list(read_sweep_folder(directory).records.values())
    else:
        records = [read_record(file) for file in sorted((directory / "runs").glob("[!.]*/record.json"))]
    if not records:
        raise InputError("holds no runs of a sweep", path=directory, remedy="give the --workdir of a sweep")
    return records
