"""What RE2's Tables 1-4, 6 and 7 train: the settings behind every row, each trained once however many rows it stands in."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

SEEDS = 10
# Data set -> (config, pairs of the full set as the paper counts them, dev and test included).
DATA_SETS = {
    "SNLI": ("re2_snli", 570_000),
    "SciTail": ("re2_scitail", 27_000),
    "Quora": ("re2_quora", 400_000),
    "WikiQA": ("re2_wikiqa", 20_000),
}
_MAIN = {"SNLI": "1", "SciTail": "2", "Quora": "3", "WikiQA": "4"}
UP_TO = 5  # blocks and encoder layers of Table 7
_ROBUSTNESS = ("SNLI", "Quora", "SciTail")


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table for one data set.

    Attributes:
      table: its number in the paper.
      data_set: a key of `DATA_SETS`.
      name: of the row.
      changes: fields of the released `config.model` that are set otherwise.
      new: no row before it has the same settings.
    """

    table: str
    data_set: str
    name: str
    changes: Mapping[str, Any]
    new: bool


def ablations(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Table 6: row -> what it changes in the released setting of a data set."""
    return {
        "original": {},
        "w/o enc-in": {"encoder_input": False},
        "residual conn.": {"connection": "residual"},
        "simple fusion": {"fusion": "simple"},
        "alignment alt.": {"alignment": "linear" if model["alignment"] == "identity" else "identity"},
        "prediction alt.": {"prediction": "full" if model["prediction"] == "simple" else "simple"},
        "parallel blocks": {"parallel_blocks": True},
    }


def robustness(up_to: int) -> dict[str, dict[str, Any]]:
    """Table 7: row -> what it changes."""
    counts = range(1, up_to + 1)
    blocks = {f"{count} blocks": {"blocks": count, "encoder_layers": 2} for count in counts}
    return blocks | {f"{count} enc. layers": {"blocks": 2, "encoder_layers": count} for count in counts}


def rows(models: Mapping[str, Mapping[str, Any]], up_to: int = UP_TO) -> Iterator[Row]:
    """All rows, table by table.

    Arguments:
      models: data set -> its released `config.model`; sets that are not in it are left out.
      up_to: blocks and encoder layers of Table 7.
    """
    trained: list[tuple[str, dict[str, Any]]] = []
    main = [(_MAIN[name], name, {"RE2": {}}) for name in models]
    sixth = [("6", name, ablations(model)) for name, model in models.items()]
    seventh = [("7", name, robustness(up_to)) for name in models if name in _ROBUSTNESS]
    for table, data_set, variants in main + sixth + seventh:
        for name, changes in variants.items():
            settings = (data_set, {**models[data_set], **changes})
            yield Row(table, data_set, name, changes, settings not in trained)
            trained.append(settings)
