"""Output that may be long, is written piece by piece, and still appears whole or not at all."""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from jaxmatch.files import naming


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
    """Yields a binary file to write; it becomes `target` when the block ends well, and vanishes when it does not.

    `-` is standard output. That, and what is not a plain file (a pipe, a terminal), is written at once.
    """
    if target == "-":
        yield getattr(sys.stdout, "buffer", None) or _Encoded(sys.stdout)
        return
    path = Path(target).resolve()  # a link is followed, not replaced
    if path.exists() and not path.is_file():
        with naming(target), open(path, "wb") as file:
            yield file
        return
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        with naming(target), open(scratch, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
