"""Where data lies, by what was said, what the run remembers, and the environment."""

import os
from pathlib import Path

from jaxmatch.data import catalog

VARIABLE = "JAXMATCH_DATA"


def data_directory(name: str, *said: str | None) -> str:
    """The folder to read data set `name` from: the first that was said, else $JAXMATCH_DATA; "" if there is none.

    One's own data is never looked for in $JAXMATCH_DATA, which is the folder of the official data sets.
    """
    places = [place for place in said if place]
    if not places and name in catalog.CATALOG:
        places = [os.environ.get(VARIABLE, "")]
    return places[0] if places else ""


def vectors_file(name: str, directory: str) -> str:
    """A vector file named by its path or by its place below the data directory."""
    if name and directory and not Path(name).exists() and (Path(directory) / name).exists():
        return str(Path(directory) / name)
    return name
