"""ESAN (Hu et al., 2020): the settings behind the rows of its Tables 1-5 and its Figure 2.

The numbers printed there, and the numbers of the authors' slides, are in esan.toml.

The paper gives ranges of sizes, not the sizes of each table (configs/esan.py says which are used), and no number of
runs.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.papers.published import printed, unstated_values
from jaxmatch.reporting.layout import Published

PRINTED = printed("esan")
DATA_SETS, data_set = PRINTED.data_sets, PRINTED.data_set
NOTES = PRINTED.notes
SEEDS = 5
ORIGINAL = "ESAN"
_CHARACTERS = {"characters": "cnn", "character_features": 100}
_SYNTAX = {"tags": True, "exact_match": True}
_INFERENCE = ("snli", "multinli", "scitail", "sick", "rte", "embedded_inference")


def features(name: str) -> dict[str, Any]:
    """Returns the features that the paper gives each word of a data set: characters and, on inference tasks, part of
    speech and exact match (section 2.1).
    """
    return _CHARACTERS | (_SYNTAX if name in _INFERENCE else {})


def setting_notes(config: ConfigDict, of: str = "Sweep file") -> tuple[str, ...]:
    """Returns the note of a table about values that the paper does not state; see `unstated_values`."""
    return unstated_values(config, of)


# Table 4: row -> what it changes.
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    ORIGINAL: {},
    "w/o Feat. Augment.": {"augmentation": "none"},
    "w/o Word Feat.": {"word_features": False},
    "w/o Contextual Feat.": {"contextual_features": False},
    "w/ Simple Augment.": {"augmentation": "simple"},
}

TIMED_BATCHES = 1000  # the number of batches in Table 5


def published_times() -> tuple[Published, ...]:
    """Returns Table 5, and the numbers that the text gives for Figure 2."""
    return PRINTED.rows("Table 5") + PRINTED.rows("section 4.2")


def _matching_settings(name: str, config: ConfigDict) -> dict[str, Any]:
    """Returns the settings that a run must have to match a row of the paper, including the features of each word."""
    return {
        "model.name": "esan",
        "data.name": config.data.name,
        **{f"model.{key}": value for key, value in features(name).items()},
    }


def published_main(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Tables 1 to 3: ESAN and the single models it is compared with, followed by the rows that
    only the slides have.

    Arguments:
      name: the name of the data set.
      config: the config of the data set.
    """
    known = PRINTED.rows("Table 5")[0].settings if name == "quora" else {}  # the size of the model, as timed there
    return PRINTED.main_rows(name, _matching_settings(name, config) | known)


def published_ablation(name: str, config: ConfigDict) -> tuple[Published, ...]:
    """Returns Table 4, which covers Quora alone. The arguments are as in `published_main`."""
    stated = _matching_settings(name, config)
    return PRINTED.variant_rows("Table 4", name, {row: {"variant": row} | stated for row in ABLATIONS})
