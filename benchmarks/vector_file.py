"""A file of word vectors of a given size in GloVe's layout."""

import random
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

DIMENSIONS = 300
# Lines are put together from pieces of this many numbers, far too many of them for an archiver to notice: writing every
# number anew would take minutes.
_PIECE, _PIECES = 50, 4000
_BLOCK_LINES = 2000


def write(folder: Path, words: Sequence[str], size: int, seed: int = 0) -> tuple[Path, Path]:
    """Writes `vectors.300d.txt` and the same in `vectors.300d.zip`.

    The words lie spread over the file, as those of a text do in a large one; the lines between have words nobody looks
    for.

    Arguments:
      folder: where.
      words: distinct, without spaces; left out at the end where the file has fewer lines.
      size: bytes of text, reached with the last line.
      seed: the same seed writes the same text.

    Returns:
      The paths of the text and of the archive.
    """
    text, archive = folder / "vectors.300d.txt", folder / "vectors.300d.zip"
    with (
        open(text, "wb") as plain,
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open(text.name, "w", force_zip64=True) as member,
    ):
        for block in _blocks(words, size, seed):
            plain.write(block)
            member.write(block)
    return text, archive


def _blocks(words: Sequence[str], size: int, seed: int) -> Iterator[bytes]:
    numbers = np.random.default_rng(seed).normal(0.0, 0.4, (_PIECES, _PIECE))
    pieces = [" ".join(f"{number:.5g}" for number in row).encode() for row in numbers]
    pick = random.Random(seed)
    line_bytes = DIMENSIONS // _PIECE * (sum(map(len, pieces)) / _PIECES + 1) + 10
    every = max(1, int(size / line_bytes / max(1, len(words))))
    written = line = 0
    while written < size:
        block = bytearray()
        for _ in range(_BLOCK_LINES):
            place, between = divmod(line, every)
            word = words[place] if not between and place < len(words) else f"unasked{line}"
            block += b" ".join([word.encode(), *pick.choices(pieces, k=DIMENSIONS // _PIECE)]) + b"\n"
            line += 1
            if written + len(block) >= size:
                break
        written += len(block)
        yield bytes(block)
