"""The labelled pairs that a command is asked to work on: a split of the model's data set, or a file of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from jaxmatch.errors import InputError

if TYPE_CHECKING:
    from jaxmatch.data.dataset import Split
    from jaxmatch.matcher import Matcher

SPLITS = ("train", "dev", "test")


def add_directory_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-directory", metavar="DIR", help="folder with the data files (default: as in training)")


def own_file(matcher: Matcher, path: Path) -> Split:
    """A file of one's own, in the layout of training data.

    Raises:
      InputError: the file cannot be used.
    """
    from jaxmatch.data.readers import own

    if path.suffix not in own.SUFFIXES:
        raise InputError("is neither .tsv nor .jsonl", path=path, remedy="give it the name ending of its layout")
    return own.read(path, matcher.task, matcher.labels if matcher.task == "classification" else None)


def official_split(matcher: Matcher, name: str, said_directory: str | None) -> Split:
    """One split of the data set that the model was trained on.

    Arguments:
      matcher: the model.
      name: "train", "dev" or "test".
      said_directory: the folder with the data files, or None for the one it was trained from.

    Raises:
      InputError: there is no such split, or its file cannot be used.
    """
    from jaxmatch.data import catalog
    from jaxmatch.experiments.preparation import data_directory

    settings = matcher.config.get("data")
    if not isinstance(settings, dict) or not isinstance(settings.get("name"), str):
        raise InputError("the model does not say what data it was trained on", remedy="give a file of your own with --input")
    directory = data_directory(settings["name"], said_directory, settings.get("directory"))
    if settings["name"] != catalog.OWN:
        return catalog.load_split(settings["name"], directory, name)
    found = catalog.find_files(catalog.OWN, directory, task=matcher.task)
    if name not in found:
        raise catalog.missing_split(catalog.OWN, directory, name)
    return own_file(matcher, found[name])
