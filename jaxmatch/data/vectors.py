"""Word vectors: from files, and made from the spelling of words.

A file is text in GloVe's layout or word2vec's binary format; plain, with gzip, or in a zip archive. Only the rows of
wanted words are held in memory.

As in fastText (Bojanowski et al., 2017, section 3.2), the hashed vector of a word is the sum of those of its character
n-grams and of the whole word. That of an n-gram is not trained: it consists of signs that come from the hash of the
n-gram (a random projection, Achlioptas, 2003). Words that share a stem have similar vectors.
"""

import codecs
import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import os
import zipfile
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from jaxmatch.errors import InputError, listed, require_plain_file, shown

# The values of `data.vectors` that are not files: hashed vectors, and none for a model that trains its own.
HASHED, NO_VECTORS = "hashed", "none"
REMEDY = "name a file of word vectors: text in GloVe's layout, also as .gz or .zip"
_BLOCK_BYTES, _LONGEST_WORD = 1 << 22, 1 << 12  # of a binary file: read at once, and in a word
_EXAMPLES = 5  # this many broken lines are described
_NUMBER_BYTES = b"0123456789+-.eE \t\r\n"
_NOT_FINITE = "a value that is not a finite number"

# Hashed vectors.
DIMENSIONS = 300
HASHED_VERSION = 1  # increased when a change gives a word another vector
_GRAM_LENGTHS = range(3, 7)
_NORM = 6.0  # about the norm of GloVe's vectors
_DIGEST_BYTES = -(-DIMENSIONS // 8)
MOST_GRAMS = 1 << 17  # the signs of this many n-grams are held in memory (50 MB)


@dataclass(frozen=True)
class VectorReport:
    """Statistics of a vector file. `broken` of its `lines` are not a word with `dimensions` finite numbers."""

    name: str  # of the file, without folder and suffixes
    dimensions: int
    lines: int
    broken: int = 0
    broken_examples: tuple[str, ...] = ()


def read_vectors(
    path: str | Path, words: Container[str], *, lowercase: bool = True
) -> tuple[dict[str, np.ndarray], VectorReport]:
    """Reads the vectors of the wanted words: word -> <float32>[dimensions].

    A first line of two whole numbers (count and dimensions, as word2vec writes) is skipped. A word may contain
    spaces, because the numbers are counted from the right. If the file holds a word twice, the first counts.

    Arguments:
      path: the file. One of a larger archive is named as if that were a folder: `glove.6B.zip/glove.6B.300d.txt`.
      words: the wanted words.
      lowercase: whether the words of the file are converted to lower case before they are looked up.

    Raises:
      InputError: the file cannot be read, or no line holds a vector.
    """
    path = Path(path)
    found: dict[str, np.ndarray] = {}
    broken, examples, count = 0, [], 0
    with _opened(path) as file:
        binary = b"\0" in file.peek()[: 1 << 16]  # text holds no zeros, and 64 KiB of 32-bit floats do
        first = file.readline().removeprefix(codecs.BOM_UTF8)
        fields = first.split()
        header = int(fields[1]) if len(fields) == 2 and all(map(bytes.isdigit, fields)) else 0
        dimensions = header or (0 if binary else len(fields) - 1)
        if dimensions < 1:
            raise InputError("this is not a file of word vectors", path=path, line=1, remedy=REMEDY)
        if binary:
            rows = _binary_rows(file, dimensions, path)
        else:
            lines = enumerate(file if header else itertools.chain([first], file), start=2 if header else 1)
            rows = ((number, *_fields(line, dimensions)) for number, line in lines if line.strip())
        for number, name, numbers, problem in rows:
            count += 1
            try:
                word = name.decode().lower() if lowercase else name.decode()
            except UnicodeDecodeError:
                word, problem = "", problem or "a word that is not UTF-8"
            if not problem and word in words and word not in found:
                row = np.frombuffer(numbers, "<f4").astype(np.float32) if binary else _parsed(numbers)
                if len(row) == dimensions and np.isfinite(row).all():
                    found[word] = row
                else:
                    problem = _NOT_FINITE
            if problem:
                broken += 1
                if len(examples) < _EXAMPLES:
                    examples.append(f"{'word' if binary else 'line'} {number}: {problem}")
    if broken == count:
        stated = f"the first line states {header} dimensions, and " if header and not binary else ""
        raise InputError(f"{stated}no line holds a word and {dimensions} numbers", path=path, remedy=REMEDY)
    return found, VectorReport(file_name(path), dimensions, count, broken, tuple(examples))


def _fields(line: bytes, dimensions: int) -> tuple[bytes, bytes, str]:
    """Splits a line into its word, its numbers, and a problem or ""."""
    problem = ""
    if line.count(b" ") == dimensions and line[:1] != b" ":  # almost all lines
        name, _, numbers = line.partition(b" ")
    else:
        name, *fields = line.strip().rsplit(None, dimensions)
        numbers = b" ".join(fields)
        if len(fields) < dimensions:
            problem = f"{len(fields)} numbers instead of {dimensions}"
        elif len(words := name.split()) > 1 and len(_parsed(words[-1])):
            problem = f"more than {dimensions} numbers"
    # Most words are not wanted. Their numbers are only checked for characters that do not occur in numbers.
    return name, numbers, problem or (_NOT_FINITE if numbers.translate(None, _NUMBER_BYTES) else "")


def _binary_rows(file: IO[bytes], dimensions: int, path: Path) -> Iterator[tuple[int, bytes, bytes, str]]:
    """Yields the rows of word2vec's binary format: a word, a space and its 32-bit floats.

    A line feed after the floats is skipped. word2vec itself writes one, other programs do not.
    """
    size, block, at = 4 * dimensions, b"", 0
    for number in itertools.count(1):
        if len(block) - at < _LONGEST_WORD + size:
            block, at = block[at:] + file.read(_BLOCK_BYTES + size), 0
        start = block.find(b" ", at) + 1
        if not start or start + size > len(block):
            if block[at:].strip():
                raise InputError(f"the file ends inside word {number}", path=path, remedy="fetch it again")
            return
        yield number, block[at : start - 1].lstrip(b"\n"), block[start : start + size], ""
        at = start + size


def file_and_member(path: str | Path) -> tuple[Path, str]:
    """Splits a path that may lead into a zip archive: the file on disk, and the name of a file inside it or ""."""
    path = Path(path)
    archives = () if os.path.exists(path) else path.parents
    file = next((each for each in archives if each.suffix.lower() == ".zip" and os.path.isfile(each)), path)
    require_plain_file(file, missing="there is no such vector file", remedy=REMEDY)
    return file, "" if file == path else path.relative_to(file).as_posix()


def file_name(path: str | Path) -> str:
    """Returns a short name for tables: 'glove.840B.300d' for '/data/glove.840B.300d.txt.gz'."""
    return functools.reduce(str.removesuffix, (".gz", ".zip", ".txt", ".bin"), Path(path).name)


def _parsed(numbers: bytes) -> np.ndarray:
    """Parses numbers as <float32>[numbers]. Returns an empty array if they are not numbers."""
    try:
        with np.errstate(over="ignore"):  # a number beyond the range of float32 becomes infinity, which is not finite
            return np.array(list(map(float, numbers.split()))).astype(np.float32)
    except ValueError:
        return np.zeros(0, np.float32)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file of word vectors. An error of the block that reads it becomes an InputError that names the file."""
    archive, member = file_and_member(path)
    try:
        with contextlib.ExitStack() as opened:
            if archive.suffix.lower() == ".zip":
                contents = opened.enter_context(zipfile.ZipFile(archive))
                stream = opened.enter_context(contents.open(_member(contents, archive, member)))
            else:
                stream = opened.enter_context((gzip.open if archive.suffix.lower() == ".gz" else open)(archive, "rb"))
            yield io.BufferedReader(stream, _BLOCK_BYTES)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # the errors of the decompressors have no common class
        reason = getattr(error, "strerror", None) or error
        remedy = "if the file is damaged, fetch it again"
        raise InputError(f"the word vectors cannot be read ({reason})", path=archive, remedy=remedy) from error


def _member(archive: zipfile.ZipFile, path: Path, wanted: str) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if wanted in names:
        return wanted
    if wanted:
        raise InputError(f"the archive holds no {shown(wanted)}", path=path, remedy=f"it holds {listed(names)}")
    names = [name for name in names if name.endswith(".txt")] or names
    if len(names) != 1:
        problem = f"the archive holds {len(names)} files: {listed(names)}"
        raise InputError(problem, path=path, remedy=f"name one of them behind the archive: {path.name}/NAME")
    return names[0]


def hashed_rule() -> dict[str, Any]:
    """Returns how hashed vectors are made, for programs without this package (docs/how_to/export.md)."""
    rule = {"version": HASHED_VERSION, "ngrams": list(_GRAM_LENGTHS), "hash": "blake2b", "digest_bytes": _DIGEST_BYTES}
    return {**rule, "dimensions": DIMENSIONS, "norm": _NORM}


def hashed_vectors(words: Collection[str]) -> np.ndarray:
    """Computes the hashed vectors of words, <float32>[words, 300]. They are the same on every machine."""
    signs = functools.lru_cache(MOST_GRAMS)(_signs)
    result = np.zeros((len(words), DIMENSIONS), np.float32)
    for row, word in enumerate(words):
        marked = f"<{word}>"
        places = ((start, start + length) for length in _GRAM_LENGTHS for start in range(len(marked) - length + 1))
        grams = {marked, *(marked[start:end] for start, end in places)}
        total = np.sum([signs(gram) for gram in grams], axis=0, dtype=np.int32)
        # In float64 this sum of whole numbers is exact, so that the result is the same on every machine.
        norm = np.sqrt(np.square(total, dtype=np.float64).sum())
        result[row] = _NORM * total / max(norm, 1.0)
    return result


def _signs(gram: str) -> np.ndarray:
    """Returns 300 numbers, 1 or -1, from the bits of the hash of an n-gram."""
    digest = hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return 2 * np.unpackbits(np.frombuffer(digest, np.uint8), count=DIMENSIONS).astype(np.int8) - 1
