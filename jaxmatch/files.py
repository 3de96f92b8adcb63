"""Writes that either happen whole or not at all."""

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO


def _scratch_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")


def _flush_folder(folder: Path) -> None:
    """Makes a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Has an OSError that names no file, as that of a full disk, name `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        code = error.errno or errno.EIO
        raise OSError(code, error.strerror or str(error) or os.strerror(code), str(path)) from error


@contextlib.contextmanager
def _named(path: str | os.PathLike) -> Iterator[None]:
    """Has an OSError name `path`, not the scratch file, of which nobody knows."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def open_atomically(target: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a binary file to write; it becomes `target` when the block ends well, and vanishes when it does not.

    What is there and is no plain file (a pipe, a terminal) is written at once.
    """
    path = Path(target).resolve()  # a link is followed, not replaced
    if path.exists() and not path.is_file():
        with naming(target), open(path, "wb") as file:
            yield file
        return
    scratch = _scratch_name(path)
    try:
        with _named(target):
            file = open(scratch, "xb")
        with naming(target), file:
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
    """Writes `value` as indented JSON with sorted keys, atomically."""
    write_atomically(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: str | os.PathLike) -> Any:
    """The value in a JSON file.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no JSON, or none that Python can hold.
    """
    try:
        return json.loads(Path(path).read_bytes())
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


@contextlib.contextmanager
def directory_atomically(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty folder that becomes `path` when the block ends well and vanishes when it does not.

    A folder that is already at `path` is replaced.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = _scratch_name(path)
    with _named(path):
        scratch.mkdir()
    try:
        with naming(path):
            yield scratch
        for file in scratch.rglob("*"):
            if file.is_file():
                with open(file, "rb") as opened:
                    os.fsync(opened.fileno())
        if path.exists():
            # A folder cannot be renamed over a full one; the old one steps aside first.
            old = _scratch_name(path)
            os.replace(path, old)
            os.replace(scratch, path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(scratch, path)
        _flush_folder(path.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
