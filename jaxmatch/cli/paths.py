"""Checks of the files and folders that a command line names, before anything is read or computed."""

import argparse
import os
import sys
from pathlib import Path

from jaxmatch.cli.stream import STANDARD_INPUT
from jaxmatch.errors import InputError
from jaxmatch.plain_file import FILE, FOLDER, kind

GIVE_WORKDIR = "give the --workdir of a sweep"
# What commands read in the folder of a sweep, a run or an index: files with these names, and all files below these
# folders.
_FILES = """
    arrivals.jsonl calibration.json choice.json cohort.json config.json error.json events.jsonl floors.json halving.json
    index.json jobs.json lines.json mistakes.json model.json parameters.npz parameters.safetensors record.json
    state.json sweep.json texts.jsonl timing.json tokenizer.json vectors.npy vocabulary.json vocabulary.txt
""".split()
_FOLDERS = {"model", "prefilter", "checkpoints", "vectors"}


def nonempty_path(text: str) -> Path:
    """Parses a path for argparse. An empty path, which would mean the current folder, is an error."""
    if not text:
        raise argparse.ArgumentTypeError("it has no name")
    return Path(text)


def check_folder(folder: Path, remedy: str = GIVE_WORKDIR) -> None:
    """Checks that a folder that will be read exists.

    Raises:
      InputError: the folder does not exist, or is not a folder.
    """
    if (found := kind(folder)) != FOLDER:
        problem = f"this is {found}, not a folder" if found else "there is no such folder"
        raise InputError(problem, path=folder, remedy=remedy)


def check_output_folder(folder: Path | None, option: str = "--output") -> None:
    """Checks that an output folder can be created. None means no output folder.

    Raises:
      InputError: a file has the name of the folder, or of a folder above it.
    """
    if folder is None:
        return
    place = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), Path())
    if (found := kind(place)) != FOLDER:
        raise InputError(f"this is {found}", path=place, remedy=f"{option} needs a folder")


def check_output(target: str, *read: Path | str | None) -> None:
    """Checks that an output file can be written, and that it does not replace an input.

    Arguments:
      target: the output file, as in `open_whole`.
      read: the inputs: files, folders or standard input. None is ignored.

    Raises:
      InputError: the target has no name, is a folder, is in a folder that does not exist, or is an input.
    """
    if not target:
        raise InputError("the output has no name", remedy='give a file, or "-" for standard output')
    path = Path(target)
    if target == "-" or (found := kind(path)) not in ("", FILE, FOLDER):  # a pipe or a terminal loses nothing
        return
    if found == FOLDER:
        raise InputError("this is a folder", path=path, remedy="--output needs a file")
    another = "give --output another name"
    if not found and kind(path.parent) != FOLDER:
        raise InputError(f"there is no folder {path.parent}", path=path, remedy=f"make it, or {another}")
    if found and (problem := next(filter(None, (_overwrite_problem(path, one) for one in read)), "")):
        raise InputError(problem, path=path, remedy=another)


def _overwrite_problem(path: Path, read: Path | str | None) -> str:
    """Returns a message if replacing the file `path` would lose the input `read`, else ""."""
    try:
        if read is None:
            return ""
        if read != STANDARD_INPUT and os.path.isdir(read):
            place, folder = path.resolve(), Path(read).resolve()
            if folder not in place.parents:
                return ""
            is_read = place.name in _FILES or _FOLDERS.intersection(place.relative_to(folder).parts[:-1])
            return f"this is a file of {read}, which is read" if is_read else ""
        found = os.fstat(sys.stdin.fileno()) if read == STANDARD_INPUT else os.stat(read)
        return "this is also the input" if os.path.samestat(found, os.stat(path)) else ""
    except (OSError, ValueError, AttributeError):  # the input is missing or closed: reading it raises an error later
        return ""
