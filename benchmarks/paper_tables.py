"""The runs that RE2's Tables 1-4, 6 and 7 need: the settings behind every row. Settings that several rows share are
trained once.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from jaxmatch.papers import re2
from jaxmatch.papers.re2 import SEEDS, UP_TO

__all__ = ["DATA_SETS", "SEEDS", "UP_TO", "Row", "rows"]

# Data set -> (config, number of training pairs of the full set).
DATA_SETS = {
    re2.DATA_SETS[name].title: (re2.DATA_SETS[name].config, re2.DATA_SETS[name].training_pairs) for name in re2.IN_PAPER
}
_MAIN = {re2.DATA_SETS[name].title: re2.DATA_SETS[name].main_table for name in re2.IN_PAPER}
_ROBUSTNESS = tuple(re2.DATA_SETS[name].title for name in re2.ROBUSTNESS)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table for one data set.

    Attributes:
      table: the number of the table in the paper.
      data_set: a key of `DATA_SETS`.
      name: the name of the row.
      changes: the fields of the released `config.model` that the row changes.
      new: whether no earlier row has the same settings.
    """

    table: str
    data_set: str
    name: str
    changes: Mapping[str, Any]
    new: bool


def rows(models: Mapping[str, Mapping[str, Any]], up_to: int = UP_TO) -> Iterator[Row]:
    """Yields all rows, table by table.

    Arguments:
      models: data set -> its released `config.model`. Data sets that are not in it are left out.
      up_to: the highest number of blocks and of encoder layers in Table 7.
    """
    trained: list[tuple[str, dict[str, Any]]] = []
    main = [(_MAIN[name], name, {"RE2": {}}) for name in models]
    sixth = [("6", name, re2.ablations(model)) for name, model in models.items()]
    seventh = [("7", name, re2.robustness(up_to)) for name in models if name in _ROBUSTNESS]
    for table, data_set, variants in main + sixth + seventh:
        for name, changes in variants.items():
            settings = (data_set, {**models[data_set], **changes})
            yield Row(table, data_set, name, changes, settings not in trained)
            trained.append(settings)
