"""Word vectors: from files, and made from the spelling of words.

A file is text in GloVe's layout or word2vec's binary format; plain, with gzip, or in a zip archive. It is read as a
stream. Only the rows of wanted words are held in memory.

Hashed vectors are for users without a file. As in fastText (Bojanowski et al., 2017, section 3.2), the vector of a word
is the sum of the vectors of its character n-grams and of the whole word. The vector of an n-gram is not trained here:
it consists of signs that come from the hash of the n-gram (a random projection, Achlioptas, 2003). Words that share a
stem have similar vectors. The vectors hold no information about the meaning of words.
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
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jaxmatch import errors
from jaxmatch.errors import InputError, listed, shown

# The values of `data.vectors` that are not files: hashed vectors, and none for a model that trains its own.
HASHED, NO_VECTORS = "hashed", "none"
REMEDY = "name a file of word vectors: text in GloVe's layout or word2vec's binary format, also as .gz or .zip"
# The number of bytes that are read at a time.
BLOCK_BYTES = 1 << 22
# A longer line is read in pieces, which are broken lines: this length has room for 50,000 numbers of 20 characters.
LONGEST_LINE = 1 << 20
# How many lines are read to find the number of dimensions, and how many broken lines are described.
_HEAD_LINES, _EXAMPLES = 50, 5
_NUMBER_BYTES = b"0123456789+-.eE \t\r\n"
# Number of the line or word, its word, its numbers, and its problem or "".
_Row = tuple[int, bytes, bytes, str]

# Hashed vectors.
DIMENSIONS = 300
# Increased when a change gives a word another vector.
HASHED_VERSION = 1
_GRAM_LENGTHS = range(3, 7)
# The norm of a vector, about that of GloVe's vectors.
_NORM = 6.0
_DIGEST_BYTES = -(-DIMENSIONS // 8)
# The signs of this many n-grams are held in memory (50 MB).
MOST_GRAMS = 1 << 17


@dataclass(frozen=True)
class VectorReport:
    """Statistics of a vector file.

    Attributes:
      name: the file name without folder and suffixes.
      dimensions: the number of dimensions of a vector.
      lines: the number of lines with a vector, broken lines included.
      kept: the number of wanted words that were found.
      broken: the number of lines that are not a word with `dimensions` finite numbers; they were left out.
      broken_examples: descriptions of the first few broken lines.
    """

    name: str
    dimensions: int
    lines: int
    kept: int
    broken: int = 0
    broken_examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class WordVectors:
    """The wanted rows of a vector file.

    Attributes:
      index: word -> row in `matrix`.
      matrix: <float32>[kept, dimensions].
    """

    index: dict[str, int]
    matrix: np.ndarray

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> np.ndarray:
        return self.matrix[self.index[word]]


def read_vectors(
    path: str | Path, words: Container[str], *, lowercase: bool = True
) -> tuple[WordVectors, VectorReport]:
    """Reads the vectors of the wanted words.

    In text, a first line of two whole numbers (count and dimensions, as word2vec writes) is skipped. A word may contain
    spaces, because the numbers are counted from the right. If the file holds a word twice, the first counts.

    Arguments:
      path: a file in one of the formats above. A file of a larger archive is named as if the archive were a folder:
        `glove.6B.zip/glove.6B.300d.txt`.
      words: the wanted words.
      lowercase: whether the words of the file are converted to lower case before they are looked up.

    Raises:
      InputError: the file does not exist, is not a regular file, is damaged, or is in another format; or no line holds
        a vector.
    """
    path = Path(path)
    with _opened(path) as file:
        # Text holds no zeros, and 64 KiB of 32-bit floats do.
        binary = b"\0" in file.peek()[: 1 << 16]
        lines = iter(functools.partial(file.readline, LONGEST_LINE), b"")
        head = list(itertools.islice(lines, 1 if binary else _HEAD_LINES)) or [b""]
        head[0] = head[0].removeprefix(codecs.BOM_UTF8)
        header = _header(head)
        if binary and not header:
            raise InputError("this is neither text nor word2vec's binary format", path=path, remedy=REMEDY)
        dimensions = header or _common_dimensions(head)
        if dimensions < 1:
            raise InputError("this is not a file of word vectors", path=path, line=1, remedy=REMEDY)
        if binary:
            rows = _binary_rows(file, dimensions, path)
        else:
            numbered = enumerate(itertools.chain(head, lines), start=1)
            rows = _text_rows(itertools.islice(numbered, 1 if header else 0, None), dimensions)
        index: dict[str, int] = {}
        matrix = bytearray()  # grows in place, so that a second copy is never held
        broken, examples, count = 0, [], 0
        for number, name, numbers, problem in rows:
            count += 1
            if not problem:
                try:
                    word = name.decode()
                except UnicodeDecodeError:
                    problem = "a word that is not UTF-8"
                else:
                    word = word.lower() if lowercase else word
                    if word in words and word not in index:
                        row = np.frombuffer(numbers, "<f4") if binary else _parse(numbers, dimensions)
                        if row is None or not np.isfinite(row).all():
                            problem = "a value that is not a finite number"
                        else:
                            index[word] = len(index)
                            matrix += row.astype(np.float32).tobytes()
            if problem:
                broken += 1
                if len(examples) < _EXAMPLES:
                    examples.append(f"{'word' if binary else 'line'} {number}: {problem}")
    if broken == count:
        found, problem = _common_dimensions(head[1:]), "no line holds a word vector"
        if header and not binary and found != header:
            problem = f"the first line states {header} dimensions, the other lines hold {found} numbers"
        raise InputError(problem, path=path, remedy="a line is a word and its numbers")
    report = VectorReport(file_name(path), dimensions, count, len(index), broken, tuple(examples))
    return WordVectors(index, np.frombuffer(matrix, np.float32).reshape(-1, dimensions)), report


def split_path(path: str | Path) -> tuple[Path, str]:
    """Splits a path that may lead into a zip archive. Returns the file on disk, and the member inside it or ''."""
    path = Path(path)
    if not os.path.exists(path):
        for parent in path.parents:
            if parent.suffix.lower() == ".zip" and os.path.isfile(parent):
                return parent, path.relative_to(parent).as_posix()
    return path, ""


def file_of(path: str | Path) -> Path:
    """Returns the file on disk that holds the vectors.

    Raises:
      InputError: the file does not exist, or is not a regular file.
    """
    archive, _ = split_path(path)
    errors.require_plain_file(archive, missing="there is no such vector file", remedy=REMEDY)
    return archive


def file_name(path: str | Path) -> str:
    """Returns a short name for tables: 'glove.840B.300d' for '/data/glove.840B.300d.txt.gz'."""
    name = Path(path).name
    for suffix in (".gz", ".zip", ".txt", ".bin"):
        name = name.removesuffix(suffix)
    return name


def _text_rows(lines: Iterable[tuple[int, bytes]], dimensions: int) -> Iterator[_Row]:
    """Yields the rows of numbered lines. Blank lines are skipped."""
    for number, line in lines:
        problem = ""
        if line.count(b" ") == dimensions and line[:1] != b" ":
            name, _, numbers = line.partition(b" ")
        else:
            fields = line.strip().rsplit(None, dimensions)
            if not fields:
                continue
            name, numbers = fields[0], b" ".join(fields[1:])
            if len(fields) <= dimensions:
                problem = f"{len(fields) - 1} numbers instead of {dimensions}"
            elif len(words := name.split()) > 1 and _is_number(words[-1]):
                problem = f"more than {dimensions} numbers"
        # Most words are not wanted. Their numbers are only checked for characters that do not occur in numbers.
        if not problem and numbers.translate(None, _NUMBER_BYTES):
            problem = "a value that is not a finite number"
        yield number, name, numbers, problem


def _binary_rows(file: BinaryIO, dimensions: int, path: Path) -> Iterator[_Row]:
    """Yields the rows of word2vec's binary format: a word, a space and its 32-bit floats.

    A line feed after the floats is skipped, because word2vec itself writes one, and other programs do not.

    Raises:
      InputError: the file ends inside a row.
    """
    size, block, at, ended = 4 * dimensions, b"", 0, False
    for number in itertools.count(1):
        if len(block) - at < LONGEST_LINE + size and not ended:
            more = file.read(BLOCK_BYTES + size)
            block, at, ended = block[at:] + more, 0, not more
        start = block.find(b" ", at) + 1
        if not start or start + size > len(block):
            if block[at:].strip():
                raise InputError(f"the file ends inside word {number}", path=path, remedy="fetch it again")
            return
        yield number, block[at : start - 1].lstrip(b"\n"), block[start : start + size], ""
        at = start + size


def _parse(numbers: bytes, dimensions: int) -> np.ndarray | None:
    """Parses numbers as <float32>[dimensions]. Returns None if they are not `dimensions` numbers."""
    try:
        row = np.array(list(map(float, numbers.split())))
    except ValueError:
        return None
    with np.errstate(over="ignore"):  # a number beyond the range of float32 becomes infinity, which is not finite
        return row.astype(np.float32) if len(row) == dimensions else None


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _header(head: list[bytes]) -> int:
    """Returns the dimensions that a first line "count dimensions" states, or 0 if the first line is not a header."""
    fields = head[0].split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return 0
    # In a file of one-dimensional vectors, the first line "7 3" may also be the word "7" and its number.
    if len(head) > 1 and len(head[1].split()) <= 2 and fields[1].lstrip(b"0") != b"1":
        return 0
    return int(fields[1])


def _common_dimensions(head: list[bytes]) -> int:
    """Returns the number of dimensions that most of the first lines have."""
    counts = Counter(len(fields) - 1 for fields in (line.split() for line in head) if fields)
    return counts.most_common(1)[0][0] if counts else 0


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """Opens a file of word vectors. Errors of opening and reading it become an InputError that names it."""
    archive, member = file_of(path), split_path(path)[1]
    with contextlib.ExitStack() as opened:
        with _errors_named(archive):
            if archive.suffix.lower() == ".zip":
                contents = opened.enter_context(zipfile.ZipFile(archive))
                stream = opened.enter_context(contents.open(_member(contents, archive, member)))
            else:
                compressed = archive.suffix.lower() == ".gz"
                stream = opened.enter_context(gzip.open(archive) if compressed else open(archive, "rb"))
        yield io.BufferedReader(_Stream(stream, archive), BLOCK_BYTES)


class _Stream(io.RawIOBase):
    """A stream whose errors name the file it is read from."""

    def __init__(self, stream: BinaryIO, path: Path):
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        with _errors_named(self._path):
            return self._stream.readinto(buffer)


@contextlib.contextmanager
def _errors_named(archive: Path) -> Iterator[None]:
    """Turns errors of reading a file into an InputError that names the file.

    Every exception except MemoryError is converted, because the errors of the decompressors have no common class.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or error
        remedy = "if the file is damaged, fetch it again"
        raise InputError(f"the word vectors cannot be read ({reason})", path=archive, remedy=remedy) from error


def _member(archive: zipfile.ZipFile, path: Path, wanted: str) -> str:
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if wanted:
        if wanted in names:
            return wanted
        raise InputError(f"the archive holds no {shown(wanted)}", path=path, remedy=f"it holds {listed(names)}")
    names = [name for name in names if name.endswith(".txt")] or names
    if len(names) != 1:
        problem = f"the archive holds {len(names)} files: {listed(names)}"
        raise InputError(problem, path=path, remedy=f"name one of them behind the archive: {path.name}/NAME")
    return names[0]


def hashed_rule() -> dict[str, Any]:
    """Returns how hashed vectors are made, as plain values for programs without this package
    (docs/how_to/export.md).
    """
    return {
        "version": HASHED_VERSION,
        "ngrams": list(_GRAM_LENGTHS),
        "hash": "blake2b",
        "digest_bytes": _DIGEST_BYTES,
        "dimensions": DIMENSIONS,
        "norm": _NORM,
    }


def hashed_vectors(words: Collection[str]) -> np.ndarray:
    """Computes the hashed vectors of words, <float32>[words, 300]. They are the same on every machine."""
    signs = functools.lru_cache(MOST_GRAMS)(_signs)
    result = np.zeros((len(words), DIMENSIONS), np.float32)
    for row, word in enumerate(words):
        total = np.sum([signs(gram) for gram in _grams(word)], axis=0, dtype=np.int32)
        # In float64 this sum of whole numbers is exact, so that the result is the same on every machine.
        norm = np.sqrt(np.square(total, dtype=np.float64).sum())
        result[row] = _NORM * total / max(norm, 1.0)
    return result


def _grams(word: str) -> set[str]:
    """Returns the n-grams of a word between < and >, and the whole word between < and >."""
    marked = f"<{word}>"
    return {marked} | {
        marked[start : start + length] for length in _GRAM_LENGTHS for start in range(len(marked) - length + 1)
    }


def _signs(gram: str) -> np.ndarray:
    """Returns 300 numbers, 1 or -1, from the bits of the hash of an n-gram."""
    digest = hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return 2 * np.unpackbits(np.frombuffer(digest, np.uint8), count=DIMENSIONS).astype(np.int8) - 1
