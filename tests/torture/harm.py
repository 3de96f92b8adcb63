"""Ways to damage one file."""

import os
import random
import shutil
from pathlib import Path


def truncated(file: Path, generator: random.Random) -> None:
    """Keeps a part of it."""
    content = file.read_bytes()
    file.write_bytes(content[: generator.randrange(len(content))] if content else b"")


def flipped(file: Path, generator: random.Random) -> None:
    """Flips one bit."""
    content = bytearray(file.read_bytes())
    if content:
        content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    file.write_bytes(content)


def deleted(file: Path, generator: random.Random) -> None:
    """Removes it."""
    file.unlink()


def emptied(file: Path, generator: random.Random) -> None:
    """Leaves nothing in it."""
    file.write_bytes(b"")


def folder(file: Path, generator: random.Random) -> None:
    """Puts a folder in its place."""
    file.unlink()
    file.mkdir()


def fifo(file: Path, generator: random.Random) -> None:
    """Puts a pipe in its place, of which nobody writes the other end."""
    file.unlink()
    os.mkfifo(file)


def other(file: Path, generator: random.Random) -> None:
    """Puts other content in its place."""
    file.write_bytes(
        generator.choice(
            [
                b"{}",
                b"[]",
                b"null",
                b"\x00" * 64,
                b"PK\x03\x04",
                b"other\n" * 9,
                b'{"format": 1}',
                generator.randbytes(200),
            ]
        )
    )


HARMS = {
    "truncated": truncated,
    "flipped": flipped,
    "deleted": deleted,
    "emptied": emptied,
    "a folder": folder,
    "a pipe": fifo,
    "other": other,
}


def files_below(place: Path) -> list[str]:
    """The files of a folder that hold something, by their relative path."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.stat().st_size)


def copied(source: Path, target: Path) -> Path:
    """Copies a folder without sharing hard links with the source, and returns the copy."""
    return Path(shutil.copytree(source, target))
