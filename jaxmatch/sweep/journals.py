"""Journals: files to which a launcher appends lines while it decides what to train next."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from jaxmatch.errors import InputError


@contextlib.contextmanager
def lock_journal(journal: Path) -> Iterator[Path]:
    """Locks a journal against other launchers. A line that a killed launcher left half written is cut off.

    Arguments:
      journal: the file, in the folder of a sweep. The folder is created if it does not exist.

    Raises:
      InputError: another launcher holds the journal.
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
