"""From a config's data section to encoded data."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxmatch.data import catalog, encoding

# Names the folder that holds the official folders of the data sets.
DATA_VARIABLE = "JAXMATCH_DATA"


def data_directory(name: str, *said: str | None) -> str:
    """The folder to read data set `name` from: the first that was said, else $JAXMATCH_DATA; "" if there is none.

    One's own data is never looked for in $JAXMATCH_DATA, which is the folder of the official data sets.
    """
    places = [place for place in said if place]
    if not places and name in catalog.CATALOG:
        places = [os.environ.get(DATA_VARIABLE, "")]
    return places[0] if places else ""


def vectors_file(name: str, directory: str) -> str:
    """A vector file named by its path or by its place below the data directory."""
    directory = directory or os.environ.get(DATA_VARIABLE, "")
    if name and directory and not Path(name).exists() and (Path(directory) / name).exists():
        return str(Path(directory) / name)
    return name


def cache_folder(named: str = "") -> Path:
    """Where encoded data is kept: as named, or below the user's cache folder."""
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxmatch"


def prepare(config: Mapping[str, Any]) -> encoding.EncodedData:
    """The encoded data of a run's config.

    Raises:
      InputError: files are missing or damaged, or no vectors are named.
    """
    settings = dict(config["data"])
    settings["directory"] = data_directory(settings["name"], settings["directory"])
    settings["vectors"] = vectors_file(settings["vectors"], settings["directory"])
    return encoding.prepare(encoding.DataSettings(**settings), cache_folder(config["execution"]["cache_directory"]))
