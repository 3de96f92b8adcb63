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
        found["data.minimum_count"] = 1  # a word that the vocabulary lacks has no characters (data/text.py)
    return found


def with_features(config: ConfigDict, features: Mapping[str, Any], choice: str) -> ConfigDict:
    """Returns the config with `feature_settings`."""
    return with_overrides(config, feature_settings(features, choice))


def unstated_values(config: ConfigDict, of: str, *more: str) -> tuple[str, ...]:
    """Returns a note about the optimizer and the characters of a model whose paper does not state their values, or no
    note if it has none of them. (ESAN's paper names the decay, but not its numbers.)

    Arguments:
      config: the config of the model.
      of: the part of the table that has these values.
      *more: further values, in words.
    """
    optimizer, values = config.optimizer, list(more)
    if optimizer.decay_rate < 1:
        least = f", down to {optimizer.learning_rate_floor:g}" if optimizer.learning_rate_floor else ""
        values.append(f"a learning rate times {optimizer.decay_rate:g} every {optimizer.decay_samples:,} pairs{least}")
    if optimizer.weight_decay:
        values.append(f"an L2 penalty of {optimizer.weight_decay:g}")
    if optimizer.gradient_clip:
        values.append(f"gradients clipped at a norm of {optimizer.gradient_clip:g}")
    if config.model.characters != "none":
        values.append("embeddings of characters of size 20")
    return (f"{of}: values that the paper does not state: {', '.join(values)}",) if values else ()
