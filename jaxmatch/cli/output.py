"""What commands print, and output that may be long, is written piece by piece, and still appears whole or not at
all.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from jaxmatch.errors import InputError
from jaxmatch.files import naming, open_atomically, remove_abandoned
from jaxmatch.printable import printable

OUTPUT = "standard output"  # as an error names it


def show(text: object, end: str = "\n") -> None:
    """Prints lines on standard output; their control characters, of labels, texts or file names, are escaped.

    Raises:
      OSError: it cannot be written; names standard output.
    """
    with naming(OUTPUT):
        print(printable(str(text), keep="\n"), end=end)


def note(text: str) -> None:
    """Prints a line on standard error, escaped like those of `show`."""
    print(printable(text), file=sys.stderr)


class _Encoded:
    """Binary output onto text: a notebook's standard output has no bytes below it."""

    def __init__(self, text: TextIO):
        self._text = text

    def write(self, content: bytes) -> int:
        self._text.write(content.decode())
        return len(content)

    def flush(self) -> None:
        self._text.flush()


class _Output:
    """Binary output whose errors name standard output."""

    def __init__(self, file: BinaryIO | _Encoded):
        self._file = file

    def write(self, content: bytes) -> int:
        with naming(OUTPUT):
            return self._file.write(content)

    def flush(self) -> None:
        with naming(OUTPUT):
            self._file.flush()


@contextlib.contextmanager
def open_whole(target: str) -> Iterator[BinaryIO]:
    """As `jaxmatch.files.open_atomically`; `-` is standard output, which is written at once. What an earlier command
    left unfinished of the same file is removed.
    """
    if target == "-":
        if sys.stdout is None:
            raise InputError("standard output is closed", remedy="give --output a file")
        yield _Output(getattr(sys.stdout, "buffer", None) or _Encoded(sys.stdout))
        return
    path = Path(os.path.realpath(target))
    remove_abandoned(path.parent, path.name)
    with open_atomically(target) as file:
        yield file
