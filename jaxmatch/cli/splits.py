"""The labeled pairs for a command: a split of the model's data set, or a file of the user."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from jaxmatch.cli import own_data, paths
from jaxmatch.errors import InputError

if TYPE_CHECKING:
    from jaxmatch.data.pairs import Split
    from jaxmatch.inference.matcher import Matcher

SPLITS = ("train", "dev", "test")


def add_directory_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-directory", metavar="DIR", help="folder with the data files (default: as in training)")


def add_file_argument(parser: argparse._ActionsContainer, about: str) -> None:
    """Adds --input, a file of labeled pairs."""
    parser.add_argument("--input", type=paths.nonempty_path, metavar="FILE", help=about)


def requested_pairs(arguments: argparse.Namespace, run: Path, matcher: Matcher, split: str) -> tuple[Split, str]:
    """Reads the pairs that a command line requests, and returns them with their name.

    These are the pairs of --input, in the layout that --columns, --labels and --quoted describe. Without --input, they
    are a split of the data set that the model of the run was trained on.

    Raises:
      InputError: the file cannot be used, or an option is given that does not apply; also as in `official_split`.
    """
    from jaxmatch.analysis.labeled_pairs import official_split, own_file

    layout = own_data.layout_settings(arguments, own_data.LAYOUT)
    if arguments.input is not None:
        if arguments.data_directory is not None:
            raise InputError("--data-directory applies to a split, not to the file of --input", remedy="leave it out")
        return own_file(matcher, arguments.input, layout), str(arguments.input)
    if layout:
        option = f"--{next(iter(layout))}"
        raise InputError(f"{option} applies to the file of --input, which is missing")
    pairs = official_split(run, matcher, split, arguments.data_directory)
    return pairs, f"{matcher.config['data']['name']} {split}"
