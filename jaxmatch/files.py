"""Atomic writes: each happens whole or not at all.

A file or folder that is being written has a scratch name, `.NAME.PID.HEX.partial`, and its writer holds a lock on it
(flock(2), which the system frees however the process ends). `remove_abandoned` removes those that no process holds.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from jaxmatch.errors import check_plain_file

try:
    import fcntl
except ImportError:  # on Windows, nothing is locked, so nothing counts as abandoned
    fcntl = None

# A file name has at most 255 bytes, and a scratch name adds about 30 bytes to the name of the file.
_MOST_BYTES = 200
# Arguments of renameat2(2): paths are relative to the current folder, and the two names are exchanged.
_AT_FDCWD, EXCHANGE = -100, 2


def _shortened(name: str) -> str:
    return os.fsencode(name)[:_MOST_BYTES].decode(errors="ignore")


def _scratch_name(path: Path) -> Path:
    return path.with_name(f".{_shortened(path.name)}.{os.getpid()}.{secrets.token_hex(4)}.partial")


def hold_lock(scratch: Path) -> int | None:
    """Locks a new scratch file or folder and returns the descriptor to close later; None on a system without locks.

    Raises:
      FileNotFoundError: `remove_abandoned` removed the file or folder before it was locked.
    """
    if fcntl is None:
        return None
    descriptor = os.open(scratch, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.stat(scratch)  # `remove_abandoned` holds the lock while it removes a file
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _scratch(path: Path, target: str | os.PathLike, make: Callable[[Path], Any]) -> Iterator[tuple[Path, Any]]:
    """Yields a scratch path for `path` and the result of `make`; the scratch is locked until the block ends."""
    while True:
        scratch = _scratch_name(path)
        with _replace_path_in_errors(target):
            handle = make(scratch)
        try:
            descriptor = hold_lock(scratch)
            break
        except FileNotFoundError:
            if handle is not None:
                handle.close()
    try:
        yield scratch, handle
    finally:
        if descriptor is not None:
            os.close(descriptor)


def remove_abandoned(folder: str | os.PathLike, name: str | None = None) -> None:
    """Removes the scratch files and folders in a folder whose writers, on this machine or another, have ended.

    Those of a live process stay, and all stay on a file system without locks. A missing folder counts as empty.

    Arguments:
      folder: the folder to clean.
      name: the name of the file or folder whose scratch files and folders are removed; None: those of all names.
    """
    if fcntl is None:
        return
    what = ".*" if name is None else re.escape(_shortened(name))
    scratch = re.compile(rf"\.{what}\.\d+\.[0-9a-f]+\.partial", re.DOTALL)
    try:
        found = [each for each in os.listdir(folder) if scratch.fullmatch(each)]
    except OSError:
        return
    for each in found:
        path = Path(folder) / each
        # A live writer holds the lock; a writer that has finished has renamed its scratch file or folder.
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                kind = os.fstat(descriptor).st_mode
                if stat.S_ISDIR(kind):
                    shutil.rmtree(path, ignore_errors=True)
                elif stat.S_ISREG(kind):
                    os.unlink(path)
            finally:
                os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Flushes a folder to disk, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def add_path_to_errors(path: str | os.PathLike) -> Iterator[None]:
    """Makes an OSError without a file name, such as the error about a full disk, name `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        code = error.errno or errno.EIO
        raise OSError(code, error.strerror or str(error) or os.strerror(code), str(path)) from error


@contextlib.contextmanager
def _replace_path_in_errors(path: str | os.PathLike, scratch: Path | None = None) -> Iterator[None]:
    """Makes an OSError name `path` instead of the temporary file or folder that is written first.

    Arguments:
      path: the final path.
      scratch: the temporary folder; errors that name a file outside it pass unchanged.
    """
    try:
        yield
    except OSError as error:
        place = str(path)
        if scratch is not None and error.filename is not None:
            name = os.fsdecode(error.filename)
            if not name.startswith(str(scratch)):
                raise
            place += name.removeprefix(str(scratch))
        code = error.errno or errno.EIO
        # NumPy does not report why a write stopped before its end.
        raise OSError(code, error.strerror or f"not all of it could be written ({error})", place) from error


def _keep_owner_and_mode(descriptor: int, path: Path) -> None:
    """Gives a scratch file the mode and, if permitted, the owner of the file that it will replace."""
    try:
        old, new = os.stat(path), os.fstat(descriptor)
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError, AttributeError):  # Windows has neither function
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


@contextlib.contextmanager
def open_atomically(target: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a binary file to write. It becomes `target` if the block ends without an error and is removed otherwise.

    A replaced file keeps its mode. If `target` exists and is not a plain file (a pipe, a terminal), it is written
    directly.

    Raises:
      OSError: the file cannot be written; the error names `target`.
    """
    path = Path(os.path.realpath(target))  # a link is followed, not replaced
    if path.is_symlink():  # a link that realpath could not follow
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(target))
    if path.exists() and not path.is_file():
        with add_path_to_errors(target), open(path, "wb") as file:
            yield file
        return
    with _scratch(path, target, lambda scratch: open(scratch, "xb")) as (scratch, file):
        try:
            with add_path_to_errors(target), file:
                _keep_owner_and_mode(file.fileno(), path)
                yield file
                file.flush()
                os.fsync(file.fileno())
            with _replace_path_in_errors(target):
                os.replace(scratch, path)
            _flush_folder(path.parent)
        finally:
            scratch.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike, content: bytes | str) -> None:
    """Writes `content` to `path` in one step: a reader sees the old file or the new file, never a part."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open_atomically(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_json(path: str | os.PathLike, value: Any) -> None:
    r"""Writes `value` as indented JSON with sorted keys, atomically.

    A byte of a file name that is not UTF-8 reaches Python as half of a surrogate pair. It is written as `\udce4`.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace"))


def read_json(path: str | os.PathLike) -> Any:
    """Reads the value in a JSON file.

    Raises:
      InputError: the path is that of a folder, a pipe, a socket or a device.
      OSError: the file cannot be read.
      ValueError: the file is not JSON in UTF-8, or Python cannot represent its value.
    """
    check_plain_file(path, remedy="remove it, or put the file back that was here")
    try:
        # Given bytes, `json.loads` would accept other encodings, too, and halves of surrogate pairs.
        return json.loads(Path(path).read_bytes().decode())
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _replace_folder(new: Path, old: Path) -> None:
    """Replaces the folder `old` by the folder `new`, which a rename alone can do only if `old` is empty.

    Linux exchanges the two names in one step (renameat2(2)). On other systems, `old` is first renamed, and a process
    killed before `new` is renamed leaves no folder at that path.
    """
    with contextlib.suppress(AttributeError, OSError):  # the system has no such function
        renameat2 = ctypes.CDLL(None).renameat2
        if renameat2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), EXCHANGE) == 0:
            return  # the caller removes the old folder, which now has the scratch name
    aside = _scratch_name(old)
    os.replace(old, aside)
    os.replace(new, old)
    shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def directory_atomically(target: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty folder. It becomes `target` if the block ends without an error and is removed otherwise.

    An existing folder is replaced.

    Raises:
      OSError: the folder cannot be written, or `target` is a broken link or not a folder; the error names `target`.
    """
    path = Path(os.path.realpath(target))
    if Path(target).is_symlink():
        os.stat(target)  # raises an error if the link is broken
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    path.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(path, target, Path.mkdir) as (scratch, _):
        try:
            with _replace_path_in_errors(target, scratch):
                yield scratch
                for file in scratch.rglob("*"):
                    if file.is_file():
                        with open(file, "rb") as opened:
                            os.fsync(opened.fileno())
            with _replace_path_in_errors(target):
                if path.exists():
                    shutil.copymode(path, scratch)
                    _replace_folder(scratch, path)
                else:
                    os.replace(scratch, path)
            _flush_folder(path.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
