"""Output of commands: text on standard output and standard error, and files that are written piece by piece but appear
whole or not at all.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from jaxmatch.errors import InputError
from jaxmatch.files import add_path_to_errors, open_atomically, remove_abandoned
from jaxmatch.printable import printable

OUTPUT = "standard output"  # its name in error messages


def show(text: object, end: str = "\n") -> None:
    """Prints lines on standard output. Control characters in labels, texts or file names are escaped.

    Raises:
      OSError: the lines cannot be written. The error names standard output.
    """
    with add_path_to_errors(OUTPUT):
        print(printable(str(text), keep="\n"), end=end)


def note(text: str) -> None:
    """Prints a line on standard error, unless it is closed. Control characters are escaped."""
    if sys.stderr is not None:  # `print` would take standard output instead
        print(printable(text), file=sys.stderr)


class _Encoded:
    """A binary file that writes to a text stream, for a notebook, whose standard output has no binary buffer."""

    def __init__(self, text: TextIO):
        self._text = text

    def write(self, content: bytes) -> int:
        self._text.write(content.decode())
        return len(content)

    def flush(self) -> None:
        self._text.flush()


class _Output:
    """A binary file whose errors name standard output."""

    def __init__(self, file: BinaryIO | _Encoded):
        self._file = file

    def write(self, content: bytes) -> int:
        with add_path_to_errors(OUTPUT):
            return self._file.write(content)

    def flush(self) -> None:
        with add_path_to_errors(OUTPUT):
            self._file.flush()


@contextlib.contextmanager
def open_whole(target: str) -> Iterator[BinaryIO]:
    """Yields a binary file to write, as `jaxmatch.files.open_atomically` does. `-` is standard output, which is written
    at once.

    Unfinished files that an earlier command left for the same target are removed.
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
