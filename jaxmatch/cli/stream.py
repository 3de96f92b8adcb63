"""The lines of a file or a pipe as they arrive, and a call if no bytes arrive for a while."""

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from jaxmatch.errors import InputError
from jaxmatch.plain_file import FOLDER, kind

IDLE_SECONDS = 0.05  # seconds without a byte, after which the lines that have arrived are processed
MAX_LINE_BYTES = 2**26
STANDARD_INPUT = "standard input"  # its name in error messages
BLOCK_BYTES = 2**20


@contextlib.contextmanager
def opened(source: Path | str) -> Iterator[int]:
    """Yields the descriptor of a file, or of standard input, which stays open afterwards.

    Raises:
      InputError: the file does not exist or is a folder, or standard input is closed.
    """
    if source == STANDARD_INPUT:
        try:
            descriptor = sys.stdin.fileno()
        except (AttributeError, ValueError):  # an io.UnsupportedOperation, in a notebook, is a ValueError
            raise InputError("standard input is closed", remedy="give --input a file, or a pipe") from None
        yield descriptor
        return
    if kind(source) == FOLDER:
        raise InputError("this is a folder, not a file", path=source, remedy="give a file")
    try:
        file = open(source, "rb", buffering=0)
    except FileNotFoundError:
        raise InputError("there is no such file", path=source) from None
    with file:
        yield file.fileno()


def lines_of(descriptor: int, name: Path | str, on_idle: Callable[[], None] | None = None) -> Iterator[bytes]:
    r"""Yields the lines of a file, a pipe or a terminal, each with its b"\n", in constant memory.

    Arguments:
      descriptor: the descriptor to read from.
      name: the name of the file or stream, for error messages.
      on_idle: the function to call whenever no byte has arrived for `IDLE_SECONDS` seconds, before waiting for more.
        None, as for a file: no function is called.

    Raises:
      InputError: a line has more than 64 MiB.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    line, number = bytearray(), 1
    while True:
        if on_idle is not None and not poll.poll(1000 * IDLE_SECONDS):
            on_idle()
        poll.poll()  # the descriptor may be one that does not wait
        block = os.read(descriptor, BLOCK_BYTES)
        if not block:
            break
        *ended, begun = block.split(b"\n")
        for piece in ended:
            line += piece
            line += b"\n"
            yield bytes(line)
            line.clear()
            number += 1
        line += begun
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"the line has more than {MAX_LINE_BYTES:,} bytes",
                path=name,
                line=number,
                remedy="a pair is one line of text",
            )
    if line:
        yield bytes(line)
