"""Reads the files of a model folder; what is wrong with one becomes an InputError that names it."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.plain_file import check_plain_file

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


def checksum(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
