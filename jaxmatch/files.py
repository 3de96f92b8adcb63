"""Atomic writes: each happens whole or not at all.

A file or folder that is being written has a scratch name, `.NAME.PID.HEX.partial`, and its writer holds a lock on it
(flock(2), which the system frees however the process ends). `remove_abandoned` removes those that no process holds.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from jaxmatch.errors import check_plain_file

# Arguments of renameat2(2): paths are relative to the current folder, and the two names are exchanged.
_AT_FDCWD, EXCHANGE = -100, 2


def _scratch_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")


@contextlib.contextmanager
def _scratch(path: Path, target: str | os.PathLike, make: Callable[[Path], Any]) -> Iterator[Path]:
    """Yields a new scratch file or folder for `path`, which is locked until the block ends. Errors name `target`."""
    while True:
        scratch = _scratch_name(path)
        with add_path_to_errors(target, scratch):
            make(scratch)
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
            descriptor = stack.enter_context(_descriptor(scratch))
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.stat(scratch)  # `remove_abandoned` holds the lock while it removes a file
            unlock = stack.pop_all()
            break
    with unlock, add_path_to_errors(target, scratch):
        yield scratch


def remove_abandoned(folder: str | os.PathLike, name: str | None = None) -> None:
    """Removes the scratch files and folders in a folder whose writers, on this machine or another, have ended.

    Those of a live process stay, and all stay on a file system without locks. A missing folder counts as empty. With a
    `name`, only those of this file or folder are removed.
    """
    what = ".*" if name is None else re.escape(name)
    scratch = re.compile(rf"\.{what}\.\d+\.[0-9a-f]+\.partial", re.DOTALL)
    with contextlib.suppress(OSError):
        for path in [Path(folder, each) for each in os.listdir(folder) if scratch.fullmatch(each)]:
            # A live writer holds the lock; a writer that has finished has renamed its scratch file or folder.
            with contextlib.suppress(OSError), _descriptor(path, os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.is_file():
                    path.unlink()


@contextlib.contextmanager
def _descriptor(path: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _flush(path: Path) -> None:
    """Flushes a file, or the names in a folder, to disk, so that a rename survives a power cut."""
    with _descriptor(path) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def add_path_to_errors(path: str | os.PathLike, scratch: Path | None = None) -> Iterator[None]:
    """Makes an OSError that names no file, as about a full disk, or `scratch`, which becomes `path`, name `path`."""
    try:
        yield
    except OSError as error:
        name = "" if error.filename is None else str(error.filename)
        if name and not (scratch and name.startswith(str(scratch))):
            raise
        code = error.errno or errno.EIO
        reason = error.strerror or str(error) or os.strerror(code)
        raise OSError(code, reason, f"{path}{name.removeprefix(str(scratch))}") from error


@contextlib.contextmanager
def open_atomically(target: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a binary file to write. It becomes `target` if the block ends without an error and is removed otherwise.

    A replaced file keeps its mode. If `target` exists and is not a plain file (a pipe, a terminal), it is written
    directly.

    Raises:
      OSError: the file cannot be written; the error names `target`.
    """
    path = Path(os.path.realpath(target))  # a link is followed, not replaced
    if path.exists() and not path.is_file():
        with add_path_to_errors(target), open(path, "wb") as file:
            yield file
        return
    with _scratch(path, target, Path.touch) as scratch:
        try:
            with open(scratch, "wb") as file:
                if path.exists():
                    shutil.copymode(path, scratch)
                yield file
            _flush(scratch)
            os.replace(scratch, path)
            _flush(path.parent)
        finally:
            scratch.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike, content: bytes | str) -> None:
    """Writes `content` to `path`, whose folders are created, as `open_atomically` does."""
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
      ValueError: the file is not JSON in UTF-8.
    """
    check_plain_file(path, remedy="remove it, or put the file back that was here")
    # Given bytes, `json.loads` would accept other encodings, too, and halves of surrogate pairs.
    return json.loads(Path(path).read_bytes().decode())


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
      OSError: the folder cannot be written, or `target` is not a folder; the error names `target`.
    """
    path = Path(os.path.realpath(target))
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    path.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(path, target, Path.mkdir) as scratch:
        try:
            yield scratch
            for file in filter(Path.is_file, scratch.rglob("*")):
                _flush(file)
            if path.exists():
                shutil.copymode(path, scratch)
                _replace_folder(scratch, path)
            else:
                os.replace(scratch, path)
            _flush(path.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
