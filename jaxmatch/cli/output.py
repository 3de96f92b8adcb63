"""Output that may be long, is written piece by piece, and still appears whole or not at all."""

import contextlib
import sys
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from jaxmatch.errors import InputError
from jaxmatch.files import open_atomically


class _Encoded:
    """Binary output onto text: a notebook's standard output has no bytes below it."""

    def __init__(self, text: TextIO):
        self._text = text

    def write(self, content: bytes) -> int:
        self._text.write(content.decode())
        return len(content)

    def flush(self) -> None:
        self._text.flush()


@contextlib.contextmanager
def open_whole(target: str) -> Iterator[BinaryIO]:
    """As `jaxmatch.files.open_atomically`; `-` is standard output, which is written at once."""
    if not str(target):
        raise InputError("the output has no name", remedy='give a file, or "-" for standard output')
    if target == "-":
        if sys.stdout is None:
            raise InputError("standard output is closed", remedy="give --output a file")
        yield getattr(sys.stdout, "buffer", None) or _Encoded(sys.stdout)
        return
    with open_atomically(target) as file:
        yield file
