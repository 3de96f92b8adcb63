"""A cache of arrays on disk. Each entry is stored under the hash of the data that it was made from.

An entry is a folder of `.npy` files, which can be memory-mapped, a `values.json`, and an `entry.json` that lists every
file with its SHA-256. An entry that does not match its hashes is not used.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch import errors, files
from jaxmatch.errors import InputError
from jaxmatch.files import hash_file

FORMAT = 2
# The digest of a file that changed less than this many nanoseconds ago is not stored: no file system has coarser
# timestamps.
TIMESTAMP_RESOLUTION_NS = 2_000_000_000


class DamagedEntry(Exception):
    """Raised if a cache entry is missing, has another format, or differs from what was written."""


def content_hash(value: Any) -> str:
    """Returns the first 32 hexadecimal digits of the SHA-256 of a plain value, written as canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(path: Path, cache_directory: Path) -> str:
    """Returns the SHA-256 of a file. The cache stores the digest for as long as the file does not change.

    Hashing a large vector file takes seconds. A second start must not hash it again.

    Raises:
      InputError: the file does not exist, is not a regular file, or cannot be read.
    """
    path = path.resolve()
    errors.require_plain_file(path)
    before = file_state(path)
    note = cache_directory / "digests" / f"{content_hash(str(path))}.json"
    cached = cached_digest(note, before)
    if cached:
        return cached
    started = time.time_ns()
    try:
        digest = hash_file(path)
    except OSError as error:
        reason = error.strerror or error
        remedy = "ask its owner for it" if isinstance(error, PermissionError) else None
        raise InputError(f"it cannot be read ({reason})", path=path, remedy=remedy) from None
    # The timestamps of some file systems are coarse: a change just after another one may leave them as they are.
    settled = before["changed"] + TIMESTAMP_RESOLUTION_NS <= started
    replaceable = os.path.isfile(note) or not os.path.lexists(note)
    if settled and replaceable and before == file_state(path):
        files.write_json(note, {"state": before, "sha256": digest, "check": content_hash([before, digest])})
    return digest


def file_state(path: Path) -> dict[str, Any]:
    """Returns properties of a file that change when the file changes.

    A program can reset the modification time of a file, but not its change time and its inode.
    """
    status = path.stat()
    return {
        "path": str(path),
        "size": status.st_size,
        "modified": status.st_mtime_ns,
        "changed": status.st_ctime_ns,
        "inode": status.st_ino,
    }


def cached_digest(note: Path, state: Mapping[str, Any]) -> str:
    """Returns the digest that `note` stores for a file in this state, or "" if it stores no such digest."""
    if not os.path.isfile(note):
        return ""
    try:
        stored = files.read_json(note)
        intact = stored["check"] == content_hash([stored["state"], stored["sha256"]])
        return stored["sha256"] if intact and stored["state"] == state else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # the note is damaged


def store(folder: Path, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
    """Writes an entry in one step. An existing entry is replaced.

    Arguments:
      folder: the folder of the entry.
      arrays: name -> array without Python objects.
      values: plain values, stored as JSON.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        folder.unlink()  # only entries belong here
    with files.directory_atomically(folder) as scratch:
        for name, array in arrays.items():
            np.save(scratch / f"{name}.npy", array, allow_pickle=False)
        files.write_json(scratch / "values.json", values)
        digests = {path.name: hash_file(path) for path in sorted(scratch.iterdir())}
        files.write_json(scratch / "entry.json", {"format": FORMAT, "sha256": digests})


def load(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the arrays and the values of an entry. Large arrays are memory-mapped read-only.

    Raises:
      DamagedEntry: the entry does not exist, has another format, or one of its files is not the one that was written.
    """
    try:
        entry = _value(folder / "entry.json")
        if entry["format"] != FORMAT:
            raise DamagedEntry(f"{folder} has another format")
        names = {path.name for path in folder.iterdir()}
        if names != {*entry["sha256"], "entry.json"} or "values.json" not in names:
            raise DamagedEntry(f"{folder} holds other files than it names")
        for name, digest in entry["sha256"].items():
            if not os.path.isfile(folder / name) or hash_file(folder / name) != digest:
                raise DamagedEntry(f"{folder / name} has changed")
        arrays = {Path(name).stem: _map(folder / name) for name in entry["sha256"] if name.endswith(".npy")}
        return arrays, _value(folder / "values.json")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedEntry(f"{folder}: {error}") from error


def _value(path: Path) -> Any:
    errors.require_plain_file(path)
    return files.read_json(path)


def _map(path: Path) -> np.ndarray:
    """Returns an array of an entry.

    The length of the file is checked against its header first, so that no memory is requested that the file does not
    fill.
    """
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"{path} has version {version}")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        expected = file.tell() + math.prod(shape) * dtype.itemsize
    size = path.stat().st_size
    if size != expected or min(shape, default=0) < 0:
        raise ValueError(f"{path} has {size} bytes where {expected} are expected")
    # A memory map keeps its file open. Small arrays are read instead, and empty arrays cannot be mapped at all.
    return np.load(path, mmap_mode="r" if size > 4096 else None, allow_pickle=False)
