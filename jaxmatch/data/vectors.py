"""A streaming reader of word vectors in GloVe's text layout: on each line a word and its numbers, separated by spaces.

Only the rows of wanted words are held in memory. Lines are read as bytes (vector_stream.py), and the numbers of a line
become floats only if its word is wanted.
"""

import dataclasses
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path

import numpy as np

from jaxmatch.data.vector_stream import BLOCK_BYTES, LONGEST_LINE, file_name, open_lines
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

# How many lines are read to find the number of dimensions, and how many broken lines are described.
_HEAD_LINES, _EXAMPLES = 200, 5
_NUMBER_BYTES = b"0123456789+-.eE "


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
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

    A first line of two whole numbers (count and dimensions, as word2vec writes) is skipped. A word may contain spaces,
    because the numbers are counted from the right. If a word has several lines, the first line counts.

    Arguments:
      path: a text file, a text file compressed with gzip (.gz), or a zip archive with one text file. A file of a larger
        archive is named as if the archive were a folder: `glove.6B.zip/glove.6B.300d.txt`.
      words: the wanted words.
      lowercase: whether the words of the file are converted to lower case before they are looked up.

    Raises:
      InputError: the file does not exist, is not a regular file, or is a damaged archive; or a line is longer than
        1 MiB, or no line holds a vector.
    """
    path = Path(path)
    with open_lines(path) as lines:
        return _read(lines, path, words, lowercase)


class _GrowingMatrix:
    """A float32 matrix that rows are appended to. It grows in place, so that a second copy is never held for long."""

    def __init__(self, dimensions: int):
        self._table, self.count = np.empty((max(1, min(1024, BLOCK_BYTES // dimensions)), dimensions), np.float32), 0

    def append(self, row: np.ndarray) -> None:
        if self.count == len(self._table):
            self._table.resize((self.count + self.count // 2 + 1, self._table.shape[1]), refcheck=False)
        self._table[self.count] = row
        self.count += 1

    def finish(self) -> np.ndarray:
        self._table.resize((self.count, self._table.shape[1]), refcheck=False)
        return self._table


def _read(
    lines: Iterator[bytes], path: Path, words: Container[str], lowercase: bool
) -> tuple[WordVectors, VectorReport]:
    head = []
    for line in lines:
        head.append(line)
        if len(head) == _HEAD_LINES:
            break
    header = _header(head, path)
    dimensions = header or _common_dimensions(head)
    if dimensions < 1:
        raise InputError(
            "this is not a file of word vectors", path=path, line=1, remedy="a line is a word and its numbers"
        )
    index: dict[str, int] = {}
    rows = _GrowingMatrix(dimensions)
    broken, examples, count, number = 0, [], 0, 0

    def every_line() -> Iterator[bytes]:
        yield from head
        yield from lines

    for number, line in enumerate(every_line(), start=1):
        if number == 1 and header:
            continue
        problem = ""
        spaces = line.count(b" ")
        if spaces == dimensions and line[:1] != b" ":
            name, _, numbers = line.partition(b" ")
        else:
            line = line.strip(b" \t\r")
            if not line:
                continue
            fields = line.rsplit(None, dimensions)
            name, numbers = fields[0], b" ".join(fields[1:])
            if len(fields) != dimensions + 1:
                problem = f"{len(fields) - 1} numbers instead of {dimensions}"
            elif len(words_of := name.split()) > 1 and _is_number(words_of[-1]):
                problem = f"more than {dimensions} numbers"
        count += 1
        # Most words are not wanted. Their numbers are only checked for characters that do not occur in numbers.
        numbers = numbers.rstrip(b" \t\r")
        if not problem and numbers.translate(None, _NUMBER_BYTES):
            problem = "a value that is not a finite number"
        if not problem:
            try:
                word = name.decode()
            except UnicodeDecodeError:
                problem = "a word that is not UTF-8"
            else:
                word = word.lower() if lowercase else word
                if word in words and word not in index:
                    row = _parse(numbers, dimensions)
                    if row is None:
                        problem = "a value that is not a finite number"
                    else:
                        index[word] = rows.count
                        rows.append(row)
        if problem:
            broken += 1
            if len(examples) < _EXAMPLES:
                examples.append(f"line {number}: {problem}")
    if broken == count:
        raise InputError("no line holds a word vector", path=path, remedy="a line is a word and its numbers")
    report = VectorReport(file_name(path), dimensions, count, rows.count, broken, tuple(examples))
    return WordVectors(index, rows.finish()), report


def _parse(numbers: bytes, dimensions: int) -> np.ndarray | None:
    """Parses numbers as <float32>[dimensions]. Returns None if they are not `dimensions` finite numbers."""
    fields = numbers.split()
    if len(fields) != dimensions:
        return None
    try:
        row = np.array(list(map(float, fields)))
    except ValueError:
        return None
    # Checked after the cast: a number beyond the range of float32 is as useless as infinity.
    with np.errstate(over="ignore"):
        row = row.astype(np.float32)
    return row if np.isfinite(row).all() else None


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _header(head: list[bytes], path: Path) -> int:
    """Returns the dimensions that a first line "count dimensions" states, or 0 if the first line is not a header.

    Raises:
      InputError: the header states more dimensions than a line can hold.
    """
    fields = head[0].split() if head else []
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return 0
    # In a file of one-dimensional vectors, the first line "7 3" may also be the word "7" and its number.
    if len(head) > 1 and len(head[1].split()) <= 2 and fields[1].lstrip(b"0") != b"1":
        return 0
    if len(fields[1]) > len(str(LONGEST_LINE)) or int(fields[1]) > LONGEST_LINE // 2:
        raise InputError(
            f"the header states {shown(fields[1].decode())} dimensions",
            path=path,
            line=1,
            remedy="its two numbers are words and dimensions",
        )
    return int(fields[1])


def _common_dimensions(head: list[bytes]) -> int:
    """Returns the number of dimensions that most of the first lines have."""
    counts = Counter(len(fields) - 1 for fields in (line.split() for line in head) if fields)
    return counts.most_common(1)[0][0] if counts else 0
