"""Writes that either happen whole or not at all.

What is being written has a scratch name, `.NAME.PID.HEX.partial`, and its writer holds a lock on it (flock(2), which
the system frees when a process ends, however it ends). `remove_abandoned` removes those that nobody holds.
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

from jaxmatch.plain_file import check_plain_file

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, so nothing counts as abandoned
    fcntl = None

# A file name holds up to 255 bytes; a scratch name needs 30 of them for itself.
_MOST_BYTES = 200
# Of renameat2(2): paths as they are, and both names at once.
_HERE, EXCHANGE = -100, 2


def _beginning(name: str) -> str:
    return os.fsencode(name)[:_MOST_BYTES].decode(errors="ignore")


def _scratch_name(path: Path) -> Path:
    return path.with_name(f".{_beginning(path.name)}.{os.getpid()}.{secrets.token_hex(4)}.partial")


def hold_lock(scratch: Path) -> int | None:
    """Locks a new scratch file or folder: the descriptor to close in the end, or None where the system has no locks.

    Raises:
      FileNotFoundError: `remove_abandoned` was quicker.
    """
    if fcntl is None:
        return None
    descriptor = os.open(scratch, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.stat(scratch)  # whoever removes it, does so under the lock
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _scratch(path: Path, target: str | os.PathLike, make: Callable[[Path], Any]) -> Iterator[tuple[Path, Any]]:
    """Yields a scratch path for `path` and what `make` made there; it is locked until the block ends."""
    while True:
        scratch = _scratch_name(path)
        with _named(target):
            made = make(scratch)
        try:
            descriptor = hold_lock(scratch)
            break
        except FileNotFoundError:
            if made is not None:
                made.close()
    try:
        yield scratch, made
    finally:
        if descriptor is not None:
            os.close(descriptor)


def remove_abandoned(folder: str | os.PathLike, name: str | None = None) -> None:
    """Removes the scratch files and folders in a folder whose writers are gone, on this machine or on another.

    Those of a live process stay, and so does everything where the file system has no locks. A folder that is missing
    has none.

    Arguments:
      folder: in which they lie.
      name: of the file or folder that they were to become; None: of any.
    """
    if fcntl is None:
        return
    what = ".*" if name is None else re.escape(_beginning(name))
    scratch = re.compile(rf"\.{what}\.\d+\.[0-9a-f]+\.partial", re.DOTALL)
    try:
        found = [each for each in os.listdir(folder) if scratch.fullmatch(each)]
    except OSError:
        return
    for each in found:
        path = Path(folder) / each
        # A live writer holds the lock; one that is done has renamed what it wrote.
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
    """Makes a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Makes an OSError that names no file, such as that of a full disk, name `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        code = error.errno or errno.EIO
        raise OSError(code, error.strerror or str(error) or os.strerror(code), str(path)) from error


@contextlib.contextmanager
def _named(path: str | os.PathLike, scratch: Path | None = None) -> Iterator[None]:
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
        # NumPy does not say why a write stopped half-way.
        raise OSError(code, error.strerror or f"not all of it could be written ({error})", place) from error


def _keep_owner_and_mode(descriptor: int, path: Path) -> None:
    """Gives a scratch file the mode and, as far as allowed, the owner of the file that it will replace."""
    try:
        old, new = os.stat(path), os.fstat(descriptor)
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError, AttributeError):  # Windows has neither
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


@contextlib.contextmanager
def open_atomically(target: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a binary file to write; it becomes `target` when the block ends well, and vanishes when it does not.

    The mode of a file that is replaced is kept. What is there and is no plain file (a pipe, a terminal) is written at
    once.

    Raises:
      OSError: it cannot be written; the error names `target`.
    """
    path = Path(os.path.realpath(target))  # a link is followed, not replaced
    if path.is_symlink():  # what realpath could not follow
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(target))
    if path.exists() and not path.is_file():
        with naming(target), open(path, "wb") as file:
            yield file
        return
    with _scratch(path, target, lambda scratch: open(scratch, "xb")) as (scratch, file):
        try:
            with naming(target), file:
                _keep_owner_and_mode(file.fileno(), path)
                yield file
                file.flush()
                os.fsync(file.fileno())
            with _named(target):
                os.replace(scratch, path)
            _flush_folder(path.parent)
        finally:
            scratch.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike, content: bytes | str) -> None:
    """Replaces `path` by `content` in one step: a reader sees the old file or the new one, never a part."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open_atomically(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_json(path: str | os.PathLike, value: Any) -> None:
    r"""Writes `value` as indented JSON with sorted keys, atomically.

    A byte of a file name that is not UTF-8 reaches Python as half of a surrogate pair, which is written as `\udce4`.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace"))


def read_json(path: str | os.PathLike) -> Any:
    """The value in a JSON file.

    Raises:
      InputError: it is a folder, a pipe, a socket or a device.
      OSError: the file cannot be read.
      ValueError: it is no JSON in UTF-8, or none that Python can hold.
    """
    check_plain_file(path, remedy="remove it, or put the file back that was here")
    try:
        # Of bytes, `json.loads` would take other encodings too, and halves of characters.
        return json.loads(Path(path).read_bytes().decode())
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _replace_folder(new: Path, old: Path) -> None:
    """Puts a folder in the place of another, which a rename alone cannot do unless that is empty.

    Linux exchanges the two names in one step (renameat2(2)); elsewhere the old one steps aside first, and a kill in
    between leaves neither.
    """
    with contextlib.suppress(AttributeError, OSError):  # no such function
        renameat2 = ctypes.CDLL(None).renameat2
        if renameat2(_HERE, os.fsencode(new), _HERE, os.fsencode(old), EXCHANGE) == 0:
            return  # the scratch name holds what is to be removed
    aside = _scratch_name(old)
    os.replace(old, aside)
    os.replace(new, old)
    shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def directory_atomically(target: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty folder that becomes `target` when the block ends well and vanishes when it does not.

    A folder that is already there is replaced.

    Raises:
      OSError: it cannot be written, a link leads nowhere, or what is there is no folder; the error names `target`.
    """
    path = Path(os.path.realpath(target))
    if Path(target).is_symlink():
        os.stat(target)  # raises for one that leads nowhere
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    path.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(path, target, Path.mkdir) as (scratch, _):
        try:
            with _named(target, scratch):
                yield scratch
                for file in scratch.rglob("*"):
                    if file.is_file():
                        with open(file, "rb") as opened:
                            os.fsync(opened.fileno())
            with _named(target):
                if path.exists():
                    shutil.copymode(path, scratch)
                    _replace_folder(scratch, path)
                else:
                    os.replace(scratch, path)
            _flush_folder(path.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """Yields an empty folder in `place`, which vanishes when the block ends. That of a killed process is removed by
    `remove_abandoned`.
    """
    place.mkdir(parents=True, exist_ok=True)
    with _scratch(place / "scratch", place, Path.mkdir) as (scratch, _):
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def hash_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
