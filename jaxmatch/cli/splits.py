"""The labeled pairs for a command: a split of the model's data set, or a file of the user."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.cli import own_data, paths
from jaxmatch.cli.output import note
from jaxmatch.errors import InputError

if TYPE_CHECKING:
    from jaxmatch.data.dataset import Split
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


def own_file(matcher: Matcher, path: Path, changes: Mapping[str, Any] | None = None) -> Split:
    """Reads a file of the user, in the layout of the training data.

    Arguments:
      matcher: the model.
      path: the file.
      changes: settings of the layout that differ from those of the training data.

    Raises:
      InputError: the file cannot be used.
    """
    from jaxmatch.data.readers import own
    from jaxmatch.data.readers.own_layout import layout_of
    from jaxmatch.plain_file import check_plain_file

    most, last = ", ".join(own.FORMATS[:-1]), own.FORMATS[-1]
    check_plain_file(path, f"give a {most} or {last} file")
    if not own.format_of(path):
        raise InputError(f"is neither {most} nor {last}", path=path, remedy="give it the name ending of its layout")
    layout = layout_of({**matcher.config.get("data", {}), **(changes or {})})
    return own.read(path, matcher.task, matcher.labels if matcher.task == "classification" else None, layout=layout)


def official_split(run: Path, matcher: Matcher, name: str, given_directory: str | None) -> Split:
    """Reads a split of the data set that the model was trained on. Prints a note if its file has changed since then.

    Arguments:
      run: the folder of the run, or of the model in it.
      matcher: the model.
      name: "train", "dev" or "test".
      given_directory: the folder with the data files, or None for the folder that the model was trained from.

    Raises:
      InputError: the model does not state its data set, the split does not exist, or its file cannot be used.
    """
    from jaxmatch.data import catalog
    from jaxmatch.data.readers.own_layout import PLAIN, layout_of
    from jaxmatch.sweep.preparation import data_directory

    settings = matcher.config.get("data")
    if not isinstance(settings, dict) or not isinstance(settings.get("name"), str):
        raise InputError(
            "the model does not say what data it was trained on", remedy="give a file of your own with --input"
        )
    directory = data_directory(settings["name"], given_directory, settings.get("directory"))
    task, layout = (matcher.task, layout_of(settings)) if settings["name"] == catalog.OWN else ("", PLAIN)
    found = catalog.find_files(settings["name"], directory, task=task, layout=layout)
    if name in found:
        _note_change(run, name, found[name])
    if settings["name"] != catalog.OWN:
        return catalog.load_split(settings["name"], directory, name)
    if name not in found:
        raise catalog.missing_split(catalog.OWN, directory, name)
    if layout.shares:
        return catalog.load(catalog.OWN, directory, task=task, layout=layout).splits[name]
    return own_file(matcher, found[name])


def _note_change(run: Path, split: str, file: Path) -> None:
    """Prints a note on standard error if the file of a split has changed since the run was trained.

    The run's record holds the checksum of the file. Nothing is printed without a record, or with an old record that has
    no checksums.
    """
    from jaxmatch.files import hash_file, read_json

    for record in (run / "record.json", run.parent / "record.json"):  # `run` may be the model's folder in the run's
        try:
            before = read_json(record)["data"]["files"][split]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if hash_file(file) != before:
            note(f"note: {file} has changed since the run was trained")
        return
