"""The settings of a run of the benchmarks, and the description of one benchmark."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.config.settings import with_overrides
from jaxmatch.errors import InputError
from jaxmatch.sweep.files import load_config

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of the command line.

    Attributes:
      data_directory: the folder of the official data sets, or "".
      vectors: a file of word vectors, or "".
      peer: a checkout of the public PyTorch RE2, or "".
      peer_python: a Python with the packages that this checkout needs.
      rounds: the number of times that each case is timed.
      quick: whether to use tiny sizes, which show only that a benchmark runs.
      scratch: an empty folder for files of this run, removed at its end.
      before: a checkout of an earlier jaxmatch, or "".
      longest_step: the longest training step of many runs at once, in seconds. A longer one is not measured.
    """

    data_directory: str
    vectors: str
    peer: str
    peer_python: str
    rounds: int
    quick: bool
    scratch: Path
    before: str = ""
    longest_step: float = 6.0

    def config(self, name: str, **overrides: Any) -> ConfigDict:
        """Loads a config of `configs/` with the data and vectors of these settings. `model__blocks=2` overrides
        `model.blocks`.
        """
        changes = {"data.directory": self.data_directory, "data.vectors": self.vectors}
        changes |= {key.replace("__", "."): value for key, value in overrides.items()}
        return with_overrides(load_config(CONFIGS / f"{name}.py"), changes)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of an item's table.

    Attributes:
      key: the key of its values in the rows.
      heading: the heading of the column.
      style: the format specification of its values; "" for text. A missing value is written as "not measured".
    """

    key: str
    heading: str
    style: str = ""


@dataclasses.dataclass(frozen=True)
class Item:
    """One benchmark.

    Attributes:
      title: a line that says what it measures.
      needs: the fields of `Settings` without which it cannot run.
      columns: the columns of its table.
      run: measures, and returns the rows (plain values by the keys of the columns) and the notes below the table.
    """

    title: str
    needs: Sequence[str]
    columns: Sequence[Column]
    run: Callable[[Settings], tuple[list[dict[str, Any]], list[str]]]

    def check(self, settings: Settings) -> None:
        """Checks that the settings have everything that the benchmark needs.

        Raises:
          InputError: an option that the benchmark needs is not given.
        """
        for need in self.needs:
            if not getattr(settings, need):
                raise InputError(f"it needs --{need.replace('_', '-')}", remedy="give it, or leave this item out")
