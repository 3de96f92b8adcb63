"""The records of a sweep's folder."""

from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError


def records_of(directory: Path) -> list[dict[str, Any]]:
    """What the finished and diverged runs left.

    Raises:
      InputError: there are none, or one is damaged.
    """
    from jaxmatch.experiments.records import read_record

    files = sorted((directory / "runs").glob("[!.]*/record.json"))
    if not files:
        raise InputError("holds no runs of a sweep", path=directory, remedy="give the --workdir of a sweep")
    return [read_record(file) for file in files]
