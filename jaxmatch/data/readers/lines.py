"""Lines and rows of text files, each with its line number. This module reads all formats except Parquet.

Only a line feed ends a line. Texts from the web hold lone carriage returns, NULs and U+2028, at which `str.splitlines`
or a file opened as text would cut a sentence in two and shift every following line.
"""

import codecs
import csv
import functools
import gzip
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from jaxmatch import plain_file
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

# A longer line cannot be text that a person wrote. It raises an error before all of it is in memory.
LONGEST_LINE = 1 << 26
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
_GZIP, _PARQUET, _ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"


def escaped(text: str) -> str:
    """Returns `text` with its unprintable characters, some of which move a cursor, written as escapes like \\x1b."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of a binary file.

    A line longer than `LONGEST_LINE` is cut, so that `decode_lines` rejects it before all of it is in memory.
    """
    return iter(functools.partial(file.readline, LONGEST_LINE + 1), b"")


def read_lines(path: Path, *, keep_blank: bool = False) -> Iterator[tuple[int, str]]:
    """Yields (line number counted from 1, text without its line end) for each line of a UTF-8 file.

    A file whose name ends in .gz is decompressed while it is read.

    Arguments:
      path: the file to read.
      keep_blank: as in `decode_lines`.

    Raises:
      InputError: the file cannot be opened or read, or is not a regular file; also as in `decode_lines`.
    """
    plain_file.require_plain_file(path)
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else open(path, "rb") as file:
            yield from decode_lines(bounded_lines(file), path, keep_blank=keep_blank)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        with open(path, "rb") as file:
            if file.read(len(_GZIP)) != _GZIP:
                problem, remedy = "this is not compressed with gzip", "remove .gz from its name"
                raise InputError(problem, path=path, remedy=remedy) from None
        raise InputError(f"the archive is damaged ({error})", path=path, remedy="copy it again") from None
    except OSError as error:
        raise InputError(f"it cannot be read ({error.strerror or error})", path=path) from None


def decode_lines(
    raw_lines: Iterable[bytes], path: Path | str, *, keep_blank: bool = False
) -> Iterator[tuple[int, str]]:
    """Yields (line number counted from 1, text without its line end) for each of the raw lines, which end in b"\\n".

    A byte-order mark, Windows line ends, a missing last line end and blank lines at the end of the file are accepted.

    Arguments:
      raw_lines: the lines of a file opened in binary mode, or the result of `bounded_lines`.
      path: the name of the file or stream, for error messages.
      keep_blank: whether blank lines are yielded too, for formats in which a line is not a pair.

    Raises:
      InputError: the file is compressed or in another format, bytes are not UTF-8, a line is longer than
        `LONGEST_LINE`, or text follows a blank line and `keep_blank` is false.
    """
    blank = 0
    for number, raw in enumerate(raw_lines, start=1):
        if len(raw) > LONGEST_LINE:
            raise InputError(
                f"the line is longer than {LONGEST_LINE >> 20} MiB",
                path=path,
                line=number,
                remedy="a line holds one pair",
            )
        if number == 1:
            if raw.startswith((_GZIP, _PARQUET)):
                kind, ending = ("Parquet", ".parquet") if raw.startswith(_PARQUET) else ("compressed with gzip", ".gz")
                raise InputError(f"this is {kind}", path=path, remedy=f"give a file whose name ends in {ending}")
            if raw.startswith(_ZIP):
                raise InputError("this is an Excel or zip file", path=path, remedy="save it as CSV")
            if raw.startswith(_UTF16_MARKS):
                raise InputError("the file is UTF-16", path=path, line=1, remedy="save it as UTF-8")
            raw = raw.removeprefix(codecs.BOM_UTF8)
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1 and raw.count(0) > len(raw) // 4:  # UTF-16 without a byte-order mark
            raise InputError("the file is UTF-16", path=path, line=1, remedy="save it as UTF-8")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"byte 0x{raw[error.start]:02X} (byte {error.start + 1} of the line) is not UTF-8",
                path=path,
                line=number,
                remedy="save the file as UTF-8",
            ) from None
        if not keep_blank and not line.strip(" "):
            blank = blank or number
            continue
        if blank:
            raise InputError("there is a blank line between others", path=path, line=blank, remedy="delete it")
        yield number, line


def read_columns(path: Path, count: int, layout: str, *, most: float | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, tab-separated columns) for each line of a file without a header.

    Quotation marks are ordinary characters, because the official files never quote.

    Arguments:
      path: the file to read.
      count: the number of columns of a line, or the least number if `most` is given.
      layout: the names of the columns, for error messages.
      most: the greatest number of columns; None: `count`; infinity: no limit.

    Raises:
      InputError: a line has another number of columns; also as in `read_lines`.
    """
    for number, line in read_lines(path):
        columns = line.split("\t")
        if not count <= len(columns) <= (count if most is None else most):
            raise InputError(
                f"{_columns(len(columns))} where {count} are expected ({layout}, separated by tabs)",
                path=path,
                line=number,
                remedy="give the line a value for each column, or delete it",
            )
        yield number, columns


def read_table(
    path: Path | str,
    required: Sequence[str],
    may_be_cut: Container[str] = (),
    *,
    quoted_by: str | None = None,
    lines: Iterator[tuple[int, str]] | None = None,
    parts: Mapping[str, str] | None = None,
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Reads a table whose first line names the columns.

    Arguments:
      path: the file to read, or the name of a stream for error messages.
      required: the names of columns that the header must hold, in any order; other columns may be there too.
      may_be_cut: the names of columns that a row may lack if they are the last columns of the table.
      quoted_by: the separator of a file in which quotation marks enclose a column that holds a separator or a line end
        (RFC 4180); None: tabs separate the columns, and quotation marks are ordinary characters.
      lines: the lines as `read_lines` yields them, with blank lines if `quoted_by` is given; None: `path` is read.
      parts: column -> its name in --columns ("text_a", "label", ...), for the remedies of errors; None: the columns
        have fixed names, and --columns does not apply.

    Returns:
      The column names, and an iterator over (line number, columns) for each row. The line number of a row is that of
      its first line.

    Raises:
      InputError: the header is damaged (raised at once), or a row is damaged (raised by the iterator).
    """
    lines = read_lines(Path(path), keep_blank=quoted_by is not None) if lines is None else lines
    numbered_rows = ((number, line.split("\t")) for number, line in lines)
    if quoted_by is not None:
        numbered_rows = _quoted(lines, path, quoted_by)
    separator = "commas" if quoted_by == "," else "tabs"
    first = next(numbered_rows, None)
    if first is None:
        raise InputError("the file is empty", path=path, remedy=f"its first line must name {listed(required)}")
    names = [name.strip() for name in first[1]]
    check_unique(names, required, path)
    missing = [name for name in required if name not in names]
    if missing:
        check_line_ends("".join(first[1]), path)
        remedy = f"the first line must name {listed(required)}, separated by {separator}"
        other = next((mark for mark in _SEPARATORS if len(names) == 1 and mark in names[0]), None)
        if other is not None:
            advice = {",": "rename the file to .csv", "\t": "rename the file to .tsv"}.get(other, "save it as CSV")
            remedy = f"{_SEPARATORS[other]} separate its columns, not {separator}: {advice}"
        elif parts is not None and quoted_by is None and f'"{missing[0]}"' in names:
            remedy = "if the file is quoted, give --quoted"
        elif parts is not None:
            headless = len(missing) == len(required)
            remedy = f"{remedy}; " * headless + rename_remedy(missing, parts)
        raise InputError(
            f"the header has no column {listed(missing)}; it has {listed(names)}", path=path, line=1, remedy=remedy
        )
    fewest = len(names)
    while fewest and names[fewest - 1] in may_be_cut:
        fewest -= 1

    def rows() -> Iterator[tuple[int, list[str]]]:
        for number, columns in numbered_rows:
            if not fewest <= len(columns) <= len(names):
                raise InputError(
                    f"{_columns(len(columns))} where the header names {len(names)}",
                    path=path,
                    line=number,
                    remedy="give the row a value for each column, or delete it",
                )
            if columns[-1].strip() == names[-1] and [column.strip("\ufeff ") for column in columns] == names:
                raise InputError(
                    "the row repeats the header", path=path, line=number, remedy="delete it; were files joined?"
                )
            yield number, columns

    return names, rows()


def check_unique(names: Sequence[str], read: Iterable[str], path: Path | str) -> None:
    """Checks that each column that is read has a name of its own. Excel, for one, writes empty names behind the others.

    Raises:
      InputError: a name of `read` is twice among `names`.
    """
    for name in read:
        if names.count(name) > 1:
            raise InputError(f"the header names column {shown(name)} twice", path=path, line=1, remedy="rename one")


def _quoted(numbered: Iterator[tuple[int, str]], path: Path | str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of the first line, columns) for each row in RFC 4180's format; skips blank lines between rows."""
    number = 1
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # for the whole process; the default is 131,072
    lines = csv.reader((f"{line}\n" for _, line in numbered), delimiter=separator, strict=True)
    while True:
        try:
            columns = next(lines, None)
        except csv.Error as error:
            if number == 1 and "new-line" in str(error):  # no name in a header holds a carriage return
                check_line_ends("\r", path)
            raise InputError(
                f"the row that begins here cannot be read ({error})",
                path=path,
                line=number,
                remedy="is a quotation mark not closed?",
            ) from None
        if columns is None:
            return
        if columns:
            yield number, columns
        number = lines.line_num + 1


def check_line_ends(header: str, path: Path | str) -> None:
    """Checks that a header does not hold the line ends of an old Mac, which make the whole file one line.

    Raises:
      InputError: the header holds carriage returns.
    """
    if "\r" in header:
        raise InputError("its lines end in carriage returns alone", path=path, line=1, remedy="save it with line feeds")


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def rename_remedy(missing: Sequence[str], parts: Mapping[str, str]) -> str:
    """Returns the remedy of an error about missing columns.

    Arguments:
      missing: the names of the missing columns.
      parts: as in `read_table`.
    """
    names = [f"{parts[name]}=NAME" for name in missing]
    what = ("it", "column") if len(names) == 1 else ("them", "columns")
    return f"rename {what[0]}, or name the {what[1]}: --columns {','.join(names)}"


def listed(names: Iterable[str], most: int = 8) -> str:
    """Joins the first `most` names with commas, for an error message."""
    names = list(names)
    return ", ".join([shown(name, 30) for name in names[:most]] + ["..."] * (len(names) > most))
