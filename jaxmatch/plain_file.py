"""What is read as a whole must be a plain file: a pipe may never end, a device never stop."""

import os
import stat
from pathlib import Path

from jaxmatch.errors import InputError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_plain_file(path: str | os.PathLike, remedy: str, most_bytes: int | None = None) -> None:
    """Refuses what is no plain file, before it is opened.

    Arguments:
      path: the file, or a link to it. One that is not there is not refused: whoever opens it says so.
      remedy: what to give instead.
      most_bytes: how long the file may be; None: as long as it likes.

    Raises:
      InputError: it is a folder, a pipe, a socket or a device, or longer than that.
      OSError: it cannot be looked at.
    """
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is not None:
        raise InputError(f"this is {kind}, not a file", path=path, remedy=remedy)
    if most_bytes is not None and found.st_size > most_bytes:
        raise InputError(f"the file has {found.st_size:,} bytes, more than {most_bytes:,}", path=path, remedy=remedy)
