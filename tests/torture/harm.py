"""Ways to damage one file."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from torture import mutations

OTHERS = (b"{}", b"[]", b"null", b"\x00" * 64, b"PK\x03\x04", b"other\n" * 9, b'{"format": 1}')


def _rewritten(change: Callable[[bytes, random.Random], bytes]) -> Callable[[Path, random.Random], None]:
    def harm(file: Path, generator: random.Random) -> None:
        content = file.read_bytes()
        file.write_bytes(change(content, generator) if content else b"")

    return harm


def folder(file: Path, generator: random.Random) -> None:
    file.unlink()
    file.mkdir()


def fifo(file: Path, generator: random.Random) -> None:
    """Puts a pipe in its place, of which nobody writes the other end."""
    file.unlink()
    os.mkfifo(file)


HARMS = {
    "truncated": _rewritten(mutations.truncated),
    "flipped": _rewritten(mutations.flipped),
    "deleted": lambda file, generator: file.unlink(),
    "emptied": lambda file, generator: file.write_bytes(b""),
    "a folder": folder,
    "a pipe": fifo,
    "other": lambda file, generator: file.write_bytes(generator.choice([*OTHERS, generator.randbytes(200)])),
}


def files_below(place: Path) -> list[str]:
    """The files of a folder that hold something, by their relative path."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.stat().st_size)


def copied(source: Path, target: Path) -> Path:
    """Copies a folder without sharing hard links with the source, and returns the copy."""
    return Path(shutil.copytree(source, target))
