"""Files and folders that a command line names: what is refused before anything is read or computed."""

import argparse
import os
import sys
from pathlib import Path

from jaxmatch.cli.stream import STANDARD_INPUT
from jaxmatch.errors import InputError
from jaxmatch.plain_file import FILE, FOLDER, kind

OF_A_SWEEP = "give the --workdir of a sweep"
# What is read of the folder of a sweep, a run or an index: files by name, and all below these folders.
_FILES = """
    arrivals.jsonl calibration.json choice.json cohort.json config.json error.json events.jsonl floors.json halving.json
    index.json jobs.json lines.json mistakes.json model.json parameters.npz parameters.safetensors record.json
    state.json sweep.json texts.jsonl timing.json tokenizer.json vectors.npy vocabulary.json vocabulary.txt
""".split()
_FOLDERS = {"model", "prefilter", "checkpoints", "vectors"}


def named(text: str) -> Path:
    """A file or folder, for argparse; without a name it would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("it has no name")
    return Path(text)


def check_folder(folder: Path, remedy: str = OF_A_SWEEP) -> None:
    """Refuses a folder that is to be read and is not there.

    Raises:
      InputError: there is none, or it is a file.
    """
    if (there := kind(folder)) != FOLDER:
        problem = f"this is {there}, not a folder" if there else "there is no such folder"
        raise InputError(problem, path=folder, remedy=remedy)


def check_output_folder(folder: Path | None, option: str = "--output") -> None:
    """Refuses a folder that cannot be made; None is none.

    Raises:
      InputError: a file is in its way.
    """
    if folder is None:
        return
    place = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), Path())
    if (there := kind(place)) != FOLDER:
        raise InputError(f"this is {there}", path=place, remedy=f"{option} needs a folder")


def check_output(target: str, *read: Path | str | None) -> None:
    """Refuses an output file that cannot be written, or that would replace what is read.

    Arguments:
      target: as `open_whole` takes it.
      read: files, folders or standard input; None is nothing.

    Raises:
      InputError: it has no name, is a folder or lies in none, or is read.
    """
    if not target:
        raise InputError("the output has no name", remedy='give a file, or "-" for standard output')
    path = Path(target)
    if target == "-" or (there := kind(path)) not in ("", FILE, FOLDER):  # a pipe or a terminal loses nothing
        return
    if there == FOLDER:
        raise InputError("this is a folder", path=path, remedy="--output needs a file")
    another = "give --output another name"
    if not there and kind(path.parent) != FOLDER:
        raise InputError(f"there is no folder {path.parent}", path=path, remedy=f"make it, or {another}")
    if there and (problem := next(filter(None, (_loss(path, one) for one in read)), "")):
        raise InputError(problem, path=path, remedy=another)


def _loss(path: Path, read: Path | str | None) -> str:
    """What is lost of what is read if a file is replaced, or ""."""
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
    except (OSError, ValueError, AttributeError):  # not there, or closed: whoever reads it says so
        return ""
