"""Reads the files of a model folder, an index or an export. A damaged file raises an InputError with its path."""

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
    """Turns an OSError in the block into an InputError about the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path=path, remedy=COPY_AGAIN) from error


@contextlib.contextmanager
def array_file(path: Path) -> Iterator[None]:
    """Checks that a file is a plain file, which has an end, and turns an OSError or ValueError into an InputError."""
    try:
        with reading(path):
            check_plain_file(path, COPY_AGAIN)
            yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"is damaged: {error!s:.300}", path=path, remedy=COPY_AGAIN) from error


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Reads a plain file of at most `most` bytes.

    Raises:
      InputError: the file cannot be read, is not a plain file, or is larger.
    """
    with reading(path):
        check_plain_file(path, COPY_AGAIN, most)
        return path.read_bytes()


def read_checked_bytes(path: Path, expected: Any, most: int | None = None) -> bytes:
    """Reads a plain file of at most `most` bytes, and checks that its SHA-256 checksum is `expected`.

    Raises:
      InputError: the file cannot be read, is not a plain file, is larger, or has another checksum.
    """
    content = read_bytes(path, most)
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError("is damaged: its checksum is not the one in model.json", path=path, remedy=COPY_AGAIN)
    return content


def check_replaceable(folder: Path, description: str, kind: str) -> None:
    """Checks that a folder holds only the files that its description lists, since replacing it removes all files.

    Arguments:
      folder: the folder to write. It may be missing or empty.
      description: the name of the JSON file in the folder that lists all other files under "sha256".
      kind: the content that the folder is to have, such as "an index", for error messages.

    Raises:
      InputError: the folder has no such description, or holds a file that the description does not list.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    problem, remedy = f"there is something else than {kind}", "name a new folder"
    try:
        listed = [PurePosixPath(name) for name in read_json(folder / description)["sha256"].keys()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(problem, path=folder, remedy=remedy) from error
    known = {PurePosixPath(description), *listed, *(above for name in listed for above in name.parents)}
    present = {PurePosixPath(path.relative_to(folder).as_posix()) for path in folder.rglob("*")}
    if other := sorted(present - known):
        raise InputError(f"{problem}: {shown(str(other[0]))}", path=folder, remedy=remedy)
