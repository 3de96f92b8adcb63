"""A folder of arrays kept under the hash of what they were made from.

An entry is a folder of `.npy` files, which can be memory-mapped, and an `entry.json` that names every file with its
SHA-256. An entry that does not match its hashes is not used.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch import files
from jaxmatch.errors import InputError

_FORMAT = 1


class DamagedEntry(Exception):
    """A cache entry is missing or is not what was once written."""


def content_hash(value: Any) -> str:
    """32 hexadecimal digits of the SHA-256 of a plain value written as canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(path: Path, cache_directory: Path) -> str:
    """The SHA-256 of a file's bytes, remembered in the cache for as long as its size and time of change stay.

    Reading a large vector file to hash it takes seconds; a second start must not.
    """
    path = path.resolve()
    status = path.stat()
    state = [str(path), status.st_size, status.st_mtime_ns]
    note = cache_directory / "digests" / f"{content_hash(state)}.json"
    try:
        remembered = json.loads(note.read_bytes())
        if remembered["state"] == state and len(remembered["sha256"]) == 64:
            return remembered["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # never written, or damaged: hash again
    try:
        digest = hash_file(path)
    except PermissionError as error:
        raise InputError(f"it cannot be read ({error.strerror})", path=path, remedy="ask its owner for it") from None
    files.write_json(note, {"state": state, "sha256": digest})
    return digest


def store(folder: Path, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
    """Writes an entry in one step; an entry that is already there is replaced.

    Arguments:
      folder: the entry.
      arrays: name -> array without Python objects.
      values: plain values, kept as JSON.
    """
    with files.directory_atomically(folder) as scratch:
        for name, array in arrays.items():
            np.save(scratch / f"{name}.npy", array, allow_pickle=False)
        files.write_json(scratch / "values.json", values)
        digests = {path.name: hash_file(path) for path in sorted(scratch.iterdir())}
        files.write_json(scratch / "entry.json", {"format": _FORMAT, "sha256": digests})


def load(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays, memory-mapped read-only, and the values of an entry.

    Raises:
      DamagedEntry: there is no such entry, or a file of it is not the one that was written.
    """
    try:
        entry = json.loads((folder / "entry.json").read_bytes())
        if entry["format"] != _FORMAT:
            raise DamagedEntry(f"{folder} has another format")
        for name, digest in entry["sha256"].items():
            if hash_file(folder / name) != digest:
                raise DamagedEntry(f"{folder / name} has changed")
        arrays = {Path(name).stem: _map(folder / name) for name in entry["sha256"] if name.endswith(".npy")}
        return arrays, json.loads((folder / "values.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedEntry(f"{folder}: {error}") from error


def _map(path: Path) -> np.ndarray:
    # A map holds a file open; small arrays are read instead, and empty ones cannot be mapped at all.
    return np.load(path, mmap_mode="r" if path.stat().st_size > 4096 else None, allow_pickle=False)


def hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
