"""The places of data files: the folder of a data set, and files of word vectors."""

import os
from pathlib import Path

from jaxmatch.data.catalog import CATALOG
from jaxmatch.data.vectors import HASHED, NO_VECTORS

# The environment variable that names the folder with the official folders of the data sets.
DATA_VARIABLE = "JAXMATCH_DATA"


def data_directory(name: str, *given: str | None) -> str:
    """Returns the folder to read data set `name` from: the first in `given`, else $JAXMATCH_DATA, else "".

    $JAXMATCH_DATA is the folder of the official data sets, so the user's own data is never looked for there.
    """
    places = [place for place in given if place]
    if not places and name in CATALOG:
        places = [os.environ.get(DATA_VARIABLE, "")]
    return places[0] if places else ""


def vectors_file(name: str, directory: str) -> str:
    """Returns the path of a vector file that is named by its path or by its place below the data directory.

    "hashed" and "none" are not files and are returned as they are.
    """
    if name in (HASHED, NO_VECTORS):
        return name
    directory = directory or os.environ.get(DATA_VARIABLE, "")
    if name and directory and not Path(name).exists() and (Path(directory) / name).exists():
        return str(Path(directory) / name)
    return name
