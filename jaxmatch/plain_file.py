"""Only plain files are read as a whole: a pipe may never end, a device may never stop."""

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
    """The kind of file at `path`, such as `FILE`; "" if there is none, nor a link. Nothing is opened.

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


def require_plain_file(
    path: str | os.PathLike, *, missing: str = "there is no such file", remedy: str | None = None
) -> None:
    """Refuses what is no plain file, and a file that is not there.

    Arguments:
      path: the file, or a link to it.
      missing: what is said of a file that is not there.
      remedy: what to do, for the error message.

    Raises:
      InputError: it is not there, cannot be looked up, or is something else.
    """
    if not is_plain_file(path, remedy=remedy):
        raise InputError(missing, path=path, remedy=remedy)


def is_plain_file(path: str | os.PathLike, *, remedy: str | None = None) -> bool:
    """Whether there is a plain file; anything else at the path is an error, not passed over.

    Raises:
      InputError: it cannot be looked up, or is something else.
    """
    there = kind(path)
    if there and there != FILE:
        raise InputError(f"this is {there}, not a file", path=path, remedy=remedy)
    return bool(there)


def check_plain_file(path: str | os.PathLike, remedy: str, most_bytes: int | None = None) -> None:
    """Refuses anything but a plain file of limited length, before it is opened. A missing file is no error here.

    Arguments:
      path: the file, or a link to it.
      remedy: what to give instead.
      most_bytes: the greatest length of the file; None: no limit.

    Raises:
      InputError: it is a folder, a pipe, a socket or a device, or longer than that.
      OSError: it cannot be looked at.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    there = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    if there != FILE:
        raise InputError(f"this is {there}, not a file", path=path, remedy=remedy)
    if most_bytes is not None and found.st_size > most_bytes:
        raise InputError(f"the file has {found.st_size:,} bytes, more than {most_bytes:,}", path=path, remedy=remedy)
