"""Definitions that the modules of all papers share."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.errors import InputError
from jaxmatch.settings import with_overrides

ACCURACY = ("dev.accuracy", "test.accuracy")
# The values of a launcher's option --features.
PAPER, NONE = "paper", "none"
WORD_VECTORS_ONLY = {"model.characters": "none", "model.tags": False, "model.exact_match": False}


@dataclasses.dataclass(frozen=True)
class PaperDataSet:
    """A data set of a paper, or one that is only trained here.

    Attributes:
      title: the name of the data set, as tables show it.
      config: the stem of its file in configs/.
      main_table: the number of its table of results, or "" if the data set is not in the paper.
      scores: the scores that a table shows. The first is the score that chooses the checkpoint.
      training_pairs: the number of pairs of the official training set; 0 if unknown.
    """

    title: str
    config: str
    main_table: str
    scores: tuple[str, ...] = ACCURACY
    training_pairs: int = 0


def settings(variants: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns variants as a sweep takes them: {"1 block": {"blocks": 1}} becomes {"1 block": {"model.blocks": 1}}."""
    return {name: {f"model.{key}": value for key, value in changes.items()} for name, changes in variants.items()}


def feature_settings(features: Mapping[str, Any], choice: str) -> dict[str, Any]:
    """Returns the settings that give a model the features that its paper gives each word besides the vector, or no
    features.

    Arguments:
      features: fields of `config.model`.
      choice: 'paper', or 'none' for the vector alone.

    Raises:
      InputError: `choice` has another value.
    """
    if choice not in (PAPER, NONE):
        raise InputError(f'--features cannot be "{choice}"', remedy=f'it is "{PAPER}" or "{NONE}"')
    if choice == NONE:
        return {**WORD_VECTORS_ONLY, "data.minimum_count": 5}
    found = WORD_VECTORS_ONLY | {f"model.{key}": value for key, value in features.items()}
    if features.get("characters", "none") != "none":
        found["data.minimum_count"] = 1  # a word that the vocabulary lacks has no characters (data/characters.py)
    return found


def with_features(config: ConfigDict, features: Mapping[str, Any], choice: str) -> ConfigDict:
    """Returns the config with `feature_settings`."""
    return with_overrides(config, feature_settings(features, choice))
