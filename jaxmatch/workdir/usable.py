"""A check whether a sweep can be stored in a folder."""

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from jaxmatch.errors import InputError

FOLDERS = ("runs", "cohorts", "vectors", "slurm")
_FILES = (
    "*.json",
    "*.jsonl",
    "optuna.journal",
    "cohorts/*/*.json",
    "cohorts/*/DONE",
    "runs/*/record.json",
    "vectors/*.npy",
)


def check_usable(workdir: Path) -> None:
    """Checks, before training starts, that a sweep can be stored in a folder. Writes nothing.

    Raises:
      InputError: the path is not UTF-8, the folder cannot be written, or a pipe, a folder or a dangling link is in the place of a file.
    """
    try:
        str(workdir.absolute()).encode()
    except UnicodeEncodeError:  # Orbax could not write checkpoints
        raise InputError("this path is not UTF-8", path=workdir, remedy="give another --workdir") from None
    for folder in (workdir, *(workdir / name for name in FOLDERS)):
        _check_folder(folder)
    for folder in _existing_paths(workdir, "runs/*-seed*"):
        _check_folder(folder, os.R_OK | os.X_OK)  # a run's folder is complete when it appears
    for folder in _existing_paths(workdir, "cohorts/*"):
        if folder.suffix != ".lock":
            _check_folder(folder)
            _check_folder(folder / "checkpoints")
    for pattern in _FILES:
        for file in _existing_paths(workdir, pattern):
            # Another launcher may have removed the file since.
            if not file.is_file() and os.path.lexists(file):
                raise InputError(
                    "this is not a regular file", path=file, remedy="remove it, and run the same command again"
                )


def _existing_paths(workdir: Path, pattern: str) -> Iterator[Path]:
    """Returns the existing paths that match a pattern, including dangling links but not hidden files."""
    return (workdir / name for name in glob.iglob(pattern, root_dir=workdir))


def _check_folder(folder: Path, access: int = os.R_OK | os.W_OK | os.X_OK) -> None:
    """Checks that a folder can be used, or created if it does not exist.

    Raises:
      InputError: a file or a dangling link is in its place, or the folder does not permit the required access.
    """
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InputError(
            f"the folder cannot be used ({error.strerror})", path=folder, remedy="give another --workdir"
        ) from None
    ancestor = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
    if not ancestor.exists():
        raise InputError(
            "the target of this link does not exist", path=ancestor, remedy="remove the link, or create its target"
        )
    if not ancestor.is_dir():
        raise InputError("this is a file, not a folder", path=ancestor, remedy="remove it, or give another --workdir")
    if not os.access(ancestor, access):
        raise InputError(
            "nothing can be written here", path=ancestor, remedy="change its permissions, or give another --workdir"
        )
