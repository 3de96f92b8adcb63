"""Journals: files of lines that a launcher adds to while it decides what to train next."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError


@contextlib.contextmanager
def held(journal: Path) -> Iterator[Path]:
    """Holds a journal against other launchers. A line that a killed one left half written is cut off.

    Arguments:
      journal: in the folder of a sweep, which is made.

    Raises:
      InputError: another launcher holds it.
    """
    journal.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(journal.with_name(f".{journal.name}.lock")).acquire(blocking=False):
            if journal.exists() and not (content := journal.read_bytes()).endswith(b"\n"):
                with open(journal, "rb+") as file:
                    file.truncate(content.rfind(b"\n") + 1)
            yield journal
    except Timeout:
        raise InputError(
            "another launcher tunes in this folder",
            path=journal.parent,
            remedy="wait for it, or give another --workdir",
        ) from None
