"""Preparation of encoded data from the data section of a config."""

from collections.abc import Mapping
from typing import Any

from jaxmatch.caches import cache_folder
from jaxmatch.config import DataConfig
from jaxmatch.data import catalog, encoding
from jaxmatch.data.encoded import EncodedData
from jaxmatch.data.places import data_directory, vectors_file
from jaxmatch.data.text import LEAST_CHARACTERS, LEAST_TAGS
from jaxmatch.data.vectors import NO_VECTORS
from jaxmatch.errors import InputError
from jaxmatch.settings import check


def check_data_settings(**values: Any) -> None:
    """Checks values of data settings as training would.

    Raises:
      InputError: a value is out of bounds, or a setting does not exist.
    """
    check(DataConfig, values, "data")


def data_settings(config: Mapping[str, Any]) -> encoding.DataSettings:
    """Returns the data settings of a run's config: its data section, and the word features that its model takes.

    Raises:
      InputError: the model's `known_characters` or `known_tags` is too small, or its words have no vectors and are not
        trained.
    """
    settings = dict(config["data"])
    settings["directory"] = data_directory(settings["name"], settings["directory"])
    settings["vectors"] = vectors_file(settings["vectors"], settings["directory"])
    trained = config["model"].get("words", "fixed") == "trained"
    if trained and not settings["vectors"] and settings["name"] not in catalog.EMBEDDED_TASKS:
        settings["vectors"] = NO_VECTORS
    if settings["vectors"] == NO_VECTORS and not trained:
        raise InputError(
            "data.vectors is 'none', and model.words is 'fixed': the model would see no word",
            remedy="train them with --config.model.words=trained, or use --vectors hashed",
        )
    return encoding.DataSettings(**settings, **_features(config["model"]))


def _features(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the word features that a model takes. A model without such settings takes no features."""
    found: dict[str, Any] = {}
    if model.get("characters", "none") != "none":
        found["characters"] = _enough(model, "known_characters", LEAST_CHARACTERS)
    if model.get("tags", False) and _enough(model, "known_tags", LEAST_TAGS):
        found["tags"] = True
    if model.get("exact_match", False):
        found["exact_match"] = True
    return found


def _enough(model: Mapping[str, Any], name: str, least: int) -> int:
    if model[name] < least:
        raise InputError(f"config.model.{name} = {model[name]} is too small", remedy=f"it is at least {least}")
    return model[name]


def prepare(config: Mapping[str, Any]) -> EncodedData:
    """Returns the encoded data of a run's config.

    Raises:
      InputError: files are missing or damaged, no vectors are given, or the model takes parts of speech and NLTK's
        tagger is not installed.
    """
    return encoding.prepare(data_settings(config), cache_folder(config["execution"]["cache_directory"]))
