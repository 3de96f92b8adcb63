"""From a config's data section to encoded data."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxmatch.caches import cache_folder
from jaxmatch.config import DataConfig
from jaxmatch.data import catalog, characters, encoding, tagging
from jaxmatch.data.encoded import EncodedData
from jaxmatch.data.hashed_vectors import HASHED
from jaxmatch.data.readers import own
from jaxmatch.data.readers.own_layout import layout_of
from jaxmatch.errors import InputError
from jaxmatch.settings import check

# Names the folder that holds the official folders of the data sets.
DATA_VARIABLE = "JAXMATCH_DATA"


def check_data_settings(**values: Any) -> None:
    """Refuses values of data settings that a training would refuse.

    Raises:
      InputError: one is out of bounds, or there is no such setting.
    """
    check(DataConfig, values, "data")


def data_directory(name: str, *said: str | None) -> str:
    """The folder to read data set `name` from: the first that was said, else $JAXMATCH_DATA; "" if there is none.

    One's own data is never looked for in $JAXMATCH_DATA, which is the folder of the official data sets.
    """
    places = [place for place in said if place]
    if not places and name in catalog.CATALOG:
        places = [os.environ.get(DATA_VARIABLE, "")]
    return places[0] if places else ""


def vectors_file(name: str, directory: str) -> str:
    """A vector file named by its path or by its place below the data directory; "hashed" and "none" are no files."""
    if name in (HASHED, encoding.NO_VECTORS):
        return name
    directory = directory or os.environ.get(DATA_VARIABLE, "")
    if name and directory and not Path(name).exists() and (Path(directory) / name).exists():
        return str(Path(directory) / name)
    return name


def guessed_task(config: Mapping[str, Any]) -> str:
    """The task of own data, from its columns.

    "" where the config has it, for other data, and for files that cannot be read: reading them raises the error.
    """
    data = config["data"]
    if data["name"] != catalog.OWN or data["task"]:
        return ""
    try:
        layout = layout_of(data)
        files = catalog.find_files(catalog.OWN, data_directory(catalog.OWN, data["directory"]) or None, layout=layout)
        return own.guess_task(files["train"], layout)
    except (InputError, KeyError):
        return ""


def data_settings(config: Mapping[str, Any]) -> encoding.DataSettings:
    """What to read for a run's config, and how: its data section, and the features of words that its model takes.

    Raises:
      InputError: the model knows fewer characters or tags than there are, or its words have no vectors and are not
        trained.
    """
    settings = dict(config["data"])
    settings["directory"] = data_directory(settings["name"], settings["directory"])
    settings["vectors"] = vectors_file(settings["vectors"], settings["directory"])
    trained = config["model"].get("words", "fixed") == "trained"
    if trained and not settings["vectors"] and settings["name"] not in catalog.EMBEDDED_TASKS:
        settings["vectors"] = encoding.NO_VECTORS
    if settings["vectors"] == encoding.NO_VECTORS and not trained:
        raise InputError(
            "data.vectors is 'none', and model.words is 'fixed': the model would see no word",
            remedy="train them with --config.model.words=trained, or use --vectors hashed",
        )
    return encoding.DataSettings(**settings, **_features(config["model"]))


def _features(model: Mapping[str, Any]) -> dict[str, Any]:
    """The features of words that a model takes; a model without such settings takes none."""
    found: dict[str, Any] = {}
    if model.get("characters", "none") != "none":
        found["characters"] = _enough(model, "known_characters", characters.LEAST_KNOWN)
    if model.get("tags", False) and _enough(model, "known_tags", tagging.LEAST_KNOWN):
        found["tags"] = True
    if model.get("exact_match", False):
        found["exact_match"] = True
    return found


def _enough(model: Mapping[str, Any], name: str, least: int) -> int:
    if model[name] < least:
        raise InputError(f"config.model.{name} = {model[name]} is too small", remedy=f"it is at least {least}")
    return model[name]


def prepare(config: Mapping[str, Any]) -> EncodedData:
    """The encoded data of a run's config.

    Raises:
      InputError: files are missing or damaged, or no vectors are named; or the model takes parts of speech, and NLTK's
        tagger is not installed.
    """
    return encoding.prepare(data_settings(config), cache_folder(config["execution"]["cache_directory"]))
