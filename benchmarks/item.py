"""The settings and results of a benchmark."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from jaxmatch.errors import InputError
from jaxmatch.settings import with_overrides
from jaxmatch.sweep.launcher_files import load_config

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of the command line.

    Attributes:
      data_directory: the folder of the official data sets, or "".
      vectors: a file of word vectors, or "".
      peer: a checkout of the public PyTorch RE2, or "".
      peer_python: a Python with what that checkout needs.
      rounds: how often each thing is timed.
      quick: a size at which nothing is worth reporting, only whether it runs.
      scratch: an empty folder for files of this run, removed at its end.
      longest_step: seconds of a training step of many runs at once, beyond which it is not measured.
    """

    data_directory: str
    vectors: str
    peer: str
    peer_python: str
    rounds: int
    quick: bool
    scratch: Path
    longest_step: float = 6.0

    def config(self, name: str, **overrides: Any) -> ConfigDict:
        """A config of `configs/` on the data and vectors that were named; `model__blocks=2` overrides
        `model.blocks`.
        """
        said = {"data.directory": self.data_directory, "data.vectors": self.vectors}
        said |= {key.replace("__", "."): value for key, value in overrides.items()}
        return with_overrides(load_config(CONFIGS / f"{name}.py"), said)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of an item's table.

    Attributes:
      key: of the rows.
      heading: of the column.
      style: how `format` writes its values; "" for text. A value that is missing is written as "not measured".
    """

    key: str
    heading: str
    style: str = ""


@dataclasses.dataclass(frozen=True)
class Item:
    """One benchmark.

    Attributes:
      title: what it measures, in a line.
      needs: fields of `Settings` without which it cannot run.
      columns: its table.
      run: measures; gives the rows, plain values by the columns' keys, and notes below the table.
      figure: draws rows that were kept, a function of them alone; needs matplotlib.
    """

    title: str
    needs: Sequence[str]
    columns: Sequence[Column]
    run: Callable[[Settings], tuple[list[dict[str, Any]], list[str]]]
    figure: Callable[[list[dict[str, Any]]], Any] | None = None

    def check(self, settings: Settings) -> None:
        """Refuses to begin what could not end.

        Raises:
          InputError: something that the benchmark needs was not given.
        """
        for need in self.needs:
            if not getattr(settings, need):
                raise InputError(f"it needs --{need.replace('_', '-')}", remedy="give it, or leave this item out")
