"""Checks of the kind of a file before it is read as a whole: a pipe or a device may never end."""

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
    """Returns the kind of file at `path`, such as `FILE`; "" if neither a file nor a link exists. Opens no file.

    Raises:
      InputError: the path cannot be looked up.
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
    """Checks that a plain file exists at a path.

    Arguments:
      path: the file, or a link to it.
      missing: the problem in the error about a file that does not exist.
      remedy: the remedy in the error.

    Raises:
      InputError: the file does not exist, cannot be looked up, or is not a plain file.
    """
    if not is_plain_file(path, remedy=remedy):
        raise InputError(missing, path=path, remedy=remedy)


def is_plain_file(path: str | os.PathLike, *, remedy: str | None = None) -> bool:
    """Returns whether a plain file exists at a path; anything else at the path raises an error.

    Raises:
      InputError: the path cannot be looked up, or is not a plain file.
    """
    found_kind = kind(path)
    if found_kind and found_kind != FILE:
        raise InputError(f"this is {found_kind}, not a file", path=path, remedy=remedy)
    return bool(found_kind)


def check_plain_file(path: str | os.PathLike, remedy: str, most_bytes: int | None = None) -> None:
    """Checks, before a file is opened, that it is a plain file of limited length. A missing file is not an error.

    Arguments:
      path: the file, or a link to it.
      remedy: the remedy in the error.
      most_bytes: the greatest length of the file; None: no limit.

    Raises:
      InputError: the file is a folder, a pipe, a socket or a device, or is longer than `most_bytes`.
      OSError: the file cannot be looked up.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    found_kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    if found_kind != FILE:
        raise InputError(f"this is {found_kind}, not a file", path=path, remedy=remedy)
    if most_bytes is not None and found.st_size > most_bytes:
        raise InputError(f"the file has {found.st_size:,} bytes, more than {most_bytes:,}", path=path, remedy=remedy)
