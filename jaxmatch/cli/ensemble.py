"""Score the runs of a sweep as ensembles: all seeds of a setting together, by majority vote and by mean probability.

    jaxmatch ensemble runs/quickstart
    jaxmatch ensemble runs/quickstart --split dev --format json

Each setting with at least two finished runs is one ensemble. Ties of a vote are decided by the summed probability. For
a sweep of sweeps/re2_ensemble.py, the ensembles of RE2's Table 1 are printed below.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.cli import splits
from jaxmatch.cli.output import show
from jaxmatch.cli.runs import records_of
from jaxmatch.errors import InputError
from jaxmatch.reporting import FORMATS

if TYPE_CHECKING:
    from jaxmatch.reporting.layout import TableLayout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="WORKDIR", help="the --workdir of a sweep")
    parser.add_argument("--split", choices=splits.SPLITS, default="test", help="split of the data set (default: test)")
    splits.add_directory_argument(parser)
    parser.add_argument("--format", choices=FORMATS, default="markdown")


def run(arguments: argparse.Namespace) -> None:
    show(text(arguments.directory, arguments.data_directory, arguments.split, arguments.format), end="")


def text(directory: Path, data_directory: str | None, split: str = "test", format: str = "markdown") -> str:
    """Returns the table of a sweep's ensembles.

    Arguments:
      directory: the sweep's folder.
      data_directory: the folder with the data files, or None for the folder that the runs were trained from.
      split: the split that is scored.
      format: "markdown", "latex", "csv" or "json".

    Raises:
      InputError: no setting has two finished runs, or the split cannot be read.
    """
    from jaxmatch.analysis.ensemble import ensemble
    from jaxmatch.analysis.ensemble_table import Ensemble, ensembles
    from jaxmatch.analysis.labeled_pairs import official_split
    from jaxmatch.inference.matcher import load

    found = []
    for members in _settings(directory):
        folders = [directory / "runs" / record["run"] for record in members]
        pairs = official_split(folders[0], load(folders[0]), split, data_directory)
        found.append(Ensemble(members, split, len(pairs), ensemble((load(folder) for folder in folders), pairs)))
    layout = _layout(directory)
    return ensembles(found, layout.ensembles, format, layout.notes) if layout else ensembles(found, (), format)


def _settings(directory: Path) -> list[tuple[Mapping[str, Any], ...]]:
    """Returns the finished runs of each setting that has at least two, in the order of their seeds."""
    from jaxmatch.reporting.records import by_setting

    found = [members for members in by_setting(records_of(directory)) if len(members) > 1]
    if not found:
        raise InputError("no setting has two finished runs", path=directory, remedy="train more seeds: --seeds N")
    return found


def _layout(directory: Path) -> TableLayout | None:
    from jaxmatch.reporting.records import name_of_sweep, read_sweep_folder

    return None if name_of_sweep(directory) is None else read_sweep_folder(directory).layout
