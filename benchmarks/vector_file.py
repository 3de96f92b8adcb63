"""A file of word vectors of a given size in GloVe's layout."""

import random
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

DIMENSIONS = 300
# Lines are assembled from pieces of `_PIECE` numbers, because formatting every number separately would take minutes.
# There are so many pieces that their repetition does not help a compressor.
_PIECE, _PIECES = 50, 4000
_BLOCK_LINES = 2000


def write(folder: Path, words: Sequence[str], size: int, seed: int = 0) -> tuple[Path, Path]:
    """Writes `vectors.300d.txt`, and the same text in `vectors.300d.zip`.

    The words are spread over the file, as those of a text are in a large vector file. The lines between them have words
    that are never looked up.

    Arguments:
      folder: the folder to write to.
      words: distinct words without spaces. The last ones are left out if the file has fewer lines.
      size: the bytes of text. The last line reaches this size.
      seed: the seed. The same seed writes the same text.

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
