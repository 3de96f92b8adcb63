"""Only regular files are read: a pipe may never end, a device may never stop."""

import os
import stat

from jaxmatch.errors import InputError

FILE, FOLDER = "a file", "a folder"
_KINDS = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: FOLDER,
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind(path: str | os.PathLike) -> str:
    """What `path` leads to, such as `FILE`; "" if there is nothing, nor a link. Nothing is opened.

    Raises:
      InputError: it cannot be looked up.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "a link to a file that is not there" if os.path.islink(path) else ""
    except (OSError, ValueError) as error:  # a folder that may not be entered; a name too long, or with a NUL
        raise InputError(f"it cannot be looked up ({getattr(error, 'strerror', error)})", path=path) from None
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def check(path: str | os.PathLike, *, missing: str = "there is no such file", remedy: str | None = None) -> None:
    """Refuses what is no regular file.

    Arguments:
      missing: what is said of a file that is not there.
      remedy: what to do, for the error message.

    Raises:
      InputError: it is not there, cannot be looked up, or is something else.
    """
    if not found(path, remedy=remedy):
        raise InputError(missing, path=path, remedy=remedy)


def found(path: str | os.PathLike, *, remedy: str | None = None) -> bool:
    """Whether there is a regular file; what else stands in its place is refused, not passed over.

    Raises:
      InputError: as in `check`, but for a file that is not there.
    """
    there = kind(path)
    if there and there != FILE:
        raise InputError(f"this is {there}, not a file", path=path, remedy=remedy)
    return bool(there)
