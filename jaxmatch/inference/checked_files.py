"""Reads the files of a model folder, an index or an export. A damaged file raises an InputError that names it."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.files import read_json
from jaxmatch.plain_file import check_plain_file
from jaxmatch.printable import shown

COPY_AGAIN = "copy the folder again"


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns an OSError into an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path=path, remedy=COPY_AGAIN) from error


@contextlib.contextmanager
def array_file(path: Path) -> Iterator[None]:
    """Checks that the file is a plain one, which can be read to its end, and turns a ValueError into an InputError."""
    try:
        with reading(path):
            check_plain_file(path, COPY_AGAIN)
            yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"is damaged: {error!s:.300}", path=path, remedy=COPY_AGAIN) from error


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a plain file of at most `most` bytes."""
    with reading(path):
        check_plain_file(path, COPY_AGAIN, most)
        return path.read_bytes()


def read_checked_bytes(path: Path, expected: Any, most: int | None = None) -> bytes:
    """The content of a plain file whose SHA-256 checksum is `expected`."""
    content = read_bytes(path, most)
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError("is damaged: its checksum is not the one in model.json", path=path, remedy=COPY_AGAIN)
    return content


def check_replaceable(folder: Path, description: str, kind: str) -> None:
    """Refuses to replace a folder that holds more than its description lists, since all of it would be removed.

    Arguments:
      folder: to be written; it may be missing.
      description: the name of the JSON file in it that lists all other files under "sha256".
      kind: what the folder is to hold, such as "an index".

    Raises:
      InputError: something else is there.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    problem, remedy = f"there is something else than {kind}", "name a new folder"
    try:
        listed = [PurePosixPath(name) for name in read_json(folder / description)["sha256"].keys()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(problem, path=folder, remedy=remedy) from error
    known = {PurePosixPath(description), *listed, *(above for name in listed for above in name.parents)}
    there = {PurePosixPath(path.relative_to(folder).as_posix()) for path in folder.rglob("*")}
    if other := sorted(there - known):
        raise InputError(f"{problem}: {shown(str(other[0]))}", path=folder, remedy=remedy)
