"""Tables in text files, JSON lines and Parquet, read as one record a row, with the line number of each.

In text files only a line feed ends a line. Texts from the web hold lone carriage returns, NULs and U+2028, at which
`str.splitlines` would cut a sentence in two and shift every following line. Blank lines are skipped.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, NotInstalled, first_line, listed, shown

_SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
_PARQUET_ROWS_AT_ONCE = 4096
Record = tuple[int, Mapping[str, Any]]


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line number counted from 1, text without its line end) for each line of a UTF-8 file.

    A file whose name ends in .gz is decompressed while it is read.

    Raises:
      InputError: the file cannot be read; also as in `decode_lines`.
    """
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else open(path, "rb") as file:
            yield from decode_lines(file, path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"it cannot be read ({getattr(error, 'strerror', None) or error})", path=path) from None


def decode_lines(raw_lines: Iterable[bytes], path: Path | str) -> Iterator[tuple[int, str]]:
    r"""Yields (line number counted from 1, text without its line end) for each of the raw lines, which end in b"\n".

    A byte-order mark, Windows line ends and a missing last line end are accepted.

    Arguments:
      raw_lines: the lines of a file opened in binary mode.
      path: the name of the file or stream, for error messages.

    Raises:
      InputError: a line is not UTF-8.
    """
    for number, raw in enumerate(raw_lines, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            problem = f"it is not UTF-8 text ({error})"
            raise InputError(problem, path=path, line=number, remedy="save it as text in UTF-8") from None
        yield number, line.removesuffix("\n").removesuffix("\r")


def without_blank(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yields the lines that hold more than spaces."""
    return ((number, line) for number, line in lines if line.strip(" "))


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
    for number, line in without_blank(read_lines(path)):
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
) -> tuple[list[str], Iterator[Record]]:
    """Reads a table whose first line names the columns.

    Arguments:
      path: the file to read, or the name of a stream for error messages.
      required: the names of columns that the header must hold, in any order; other columns may be there too.
      may_be_cut: the names of columns that a row may lack if they are the last columns of the table.
      quoted_by: the separator of a file in which quotation marks enclose a column that holds a separator or a line end
        (RFC 4180); None: tabs separate the columns, and quotation marks are ordinary characters.
      lines: the lines as `read_lines` yields them; None: `path` is read.
      parts: column -> its name in --columns ("text_a", "label", ...), for the remedies of errors; None: the columns
        have fixed names, and --columns does not apply.

    Returns:
      The column names, and an iterator over (line number, column -> text) for each row. The line number of a row is
      that of its first line.

    Raises:
      InputError: the header is damaged (raised at once), or a row is damaged (raised by the iterator).
    """
    lines = read_lines(Path(path)) if lines is None else lines
    if quoted_by is None:
        numbered_rows = ((number, line.split("\t")) for number, line in without_blank(lines))
    else:
        numbered_rows = _quoted(lines, path, quoted_by)
    _, header = next(numbered_rows, (0, None))
    if header is None:
        raise InputError("the file is empty", path=path, remedy=f"its first line must name {listed(required)}")
    names = [name.strip() for name in header]
    check_unique(names, required, path)
    if missing := [name for name in required if name not in names]:
        problem = f"the header has no column {listed(missing)}; it has {listed(names)}"
        raise InputError(problem, path=path, line=1, remedy=_header_remedy(names, missing, required, quoted_by, parts))
    fewest = len(names)
    while fewest and names[fewest - 1] in may_be_cut:
        fewest -= 1

    def rows() -> Iterator[Record]:
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
            yield number, dict(zip(names, columns))

    return names, rows()


def _quoted(lines: Iterator[tuple[int, str]], path: Path | str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of the first line, columns) for each row in RFC 4180's format; skips blank lines between rows."""
    csv.field_size_limit(1 << 30)  # for the whole process; the default is 131,072
    rows, number = csv.reader((f"{line}\n" for _, line in lines), delimiter=separator, strict=True), 1
    try:
        for columns in rows:
            if columns:
                yield number, columns
            number = rows.line_num + 1
    except csv.Error as error:
        problem = f"the row that begins here cannot be read ({error})"
        remedy = "is a quotation mark not closed, or do lines end in carriage returns alone?"
        raise InputError(problem, path=path, line=number, remedy=remedy) from None


def check_unique(names: Sequence[str], read: Iterable[str], path: Path | str) -> None:
    """Checks that each column that is read has a name of its own. Excel, for one, writes empty names behind the others.

    Raises:
      InputError: a name of `read` is twice among `names`.
    """
    for name in read:
        if names.count(name) > 1:
            raise InputError(f"the header names column {shown(name)} twice", path=path, line=1, remedy="rename one")


def _header_remedy(
    names: Sequence[str],
    missing: Sequence[str],
    required: Sequence[str],
    quoted_by: str | None,
    parts: Mapping[str, str] | None,
) -> str:
    """Returns the remedy for a header that lacks columns. The arguments are those of `read_table`."""
    separator = "commas" if quoted_by == "," else "tabs"
    if len(names) == 1 and (other := next((mark for mark in _SEPARATORS if mark in names[0]), None)):
        advice = {",": "rename the file to .csv", "\t": "rename the file to .tsv"}.get(other, "save it as CSV")
        return f"{_SEPARATORS[other]} separate its columns, not {separator}: {advice}"
    remedy = f"the first line must name {listed(required)}, separated by {separator}"
    if parts is None:
        return remedy
    if quoted_by is None and f'"{missing[0]}"' in names:
        return "if the file is quoted, give --quoted"
    return f"{remedy}; " * (len(missing) == len(required)) + rename_remedy(missing, parts)


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


def read_objects(path: Path) -> Iterator[Record]:
    """Yields (line number, object) for each line of a file with one JSON object a line.

    Raises:
      InputError: as in `object_of` and in `read_lines`.
    """
    return ((number, object_of(line, path, number)) for number, line in without_blank(read_lines(path)))


def object_of(line: str, path: Path | str, number: int) -> dict[str, Any]:
    """Parses a line that holds one JSON object.

    Arguments:
      line: the text of the line.
      path: the file that the line comes from, for error messages.
      number: the number of the line, for error messages.

    Raises:
      InputError: the line is not a JSON object.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        problem = f"not valid JSON ({str(error).replace(': line 1 column', ' at column')})"
        remedy = "each line holds one object; correct or delete this one"
        raise InputError(problem, path=path, line=number, remedy=remedy) from None
    if not isinstance(value, dict):
        problem = f"the line is not a JSON object but {shown(value)}"
        raise InputError(problem, path=path, line=number, remedy='write it like {"NAME": "TEXT", ...}, or delete it')
    return value


def text_of(
    record: Mapping[str, Any], key: str, path: Path | str, line: int, parts: Mapping[str, str] | None = None
) -> str:
    """Returns the text that a record holds under `key`.

    Arguments:
      record: the JSON object, or the row of a table.
      key: the key to look up.
      path: the file that the record comes from, for error messages.
      line: the line of the record, for error messages.
      parts: as in `read_table`.

    Raises:
      InputError: the key is missing, or its value is not a text.
    """
    try:
        value = record[key]
    except KeyError:
        near = f"; it has {listed(record)}" if record else ""
        remedy = None if parts is None else rename_remedy([key], parts)
        raise InputError(f"the object has no key {shown(key)}{near}", path=path, line=line, remedy=remedy) from None
    if not isinstance(value, str):
        raise InputError(f"{shown(key)} holds {shown(value)} where a text is expected", path=path, line=line)
    return value


def read_parquet(
    path: Path,
    required: Iterable[str],
    wanted: Sequence[str] | None = None,
    parts: Mapping[str, str] | None = None,
) -> tuple[list[str], Iterator[Record]]:
    """Reads a table in Parquet.

    Arguments:
      path: the file to read.
      required: the names of columns that the file must have.
      wanted: the names of columns that are read if the file has them; None: all columns.
      parts: as in `read_table`.

    Returns:
      The column names, and an iterator over (row counted from 0, column -> value) for each row.

    Raises:
      InputError: a required column is missing, the file is damaged, or pyarrow is not installed.
    """
    file = _open_parquet(path)
    names = file.schema_arrow.names
    if missing := [name for name in required if name not in names]:
        remedy = None if parts is None else rename_remedy(missing, parts)
        raise InputError(f"there is no column {listed(missing)}; there are {listed(names)}", path=path, remedy=remedy)

    def rows() -> Iterator[Record]:
        columns, row = [name for name in names if wanted is None or name in wanted], 0
        try:
            for batch in file.iter_batches(_PARQUET_ROWS_AT_ONCE, columns=columns):
                for record in batch.to_pylist():
                    yield row, record
                    row += 1
        except (ValueError, OSError) as error:  # pyarrow's errors derive from these
            raise InputError(f"the file is damaged ({first_line(error)})", path=path, remedy="copy it again") from None

    return names, rows()


def class_names(path: Path, column: str) -> list[str]:
    """Returns the names of a `ClassLabel` column, which Hugging Face's datasets stores in the metadata of Parquet.

    The list is empty if the file stores no names for the column.
    """
    metadata = json.loads((_open_parquet(path).schema_arrow.metadata or {}).get(b"huggingface", "{}"))
    return metadata.get("info", {}).get("features", {}).get(column, {}).get("names") or []


def _open_parquet(path: Path) -> Any:
    """Opens a file as a `pyarrow.parquet.ParquetFile`; decompresses a file whose name ends in .gz into memory."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise NotInstalled("reading Parquet", "pyarrow", "tables", "or save it as CSV", path) from None
    try:
        packed = path.name.lower().endswith(".gz")
        return parquet.ParquetFile(pyarrow.BufferReader(gzip.decompress(path.read_bytes())) if packed else path)
    except (pyarrow.ArrowException, EOFError, zlib.error, OSError) as error:
        raise InputError(f"it is not a readable Parquet file ({first_line(error)})", path=path) from None
