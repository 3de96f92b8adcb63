"""Records, read one by one from a stream or a file in a format of training data: TSV, CSV, JSON lines or Parquet."""

import argparse
import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.cli.stream import STANDARD_INPUT, lines_of, opened
from jaxmatch.data.own import columns_of, errors_name_rows
from jaxmatch.data.tables import (
    check_unique,
    decode_lines,
    object_of,
    read_lines,
    read_parquet,
    read_table,
    text_of,
    without_blank,
)
from jaxmatch.errors import InputError
from jaxmatch.printable import without_nan

FORMATS = ("tsv", "csv", "jsonl", "parquet")
SUFFIXES = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
Record = tuple[int, dict[str, Any]]


def add_arguments(parser: argparse.ArgumentParser, formats: Sequence[str], example: str, default: str) -> None:
    """Adds --format, --columns and --quoted."""
    parser.add_argument("--format", choices=formats, help=f"format of the input (default: {default})")
    parser.add_argument("--columns", default="", metavar="A=B,...", help=f"columns with other names: {example}")
    parser.add_argument("--quoted", action="store_true", help="TSV with quotation marks, as in CSV")


def known_columns(text: str, known: Sequence[str], example: str) -> dict[str, str]:
    """Parses --columns. Returns known part -> its column in the file; a part that is not given is its own column.

    Raises:
      InputError: as in `columns_of`.
    """
    columns = columns_of(text, known, example)
    return {name: columns.get(name, name) for name in known}


def source_of(name: str) -> Path | str:
    """Returns the input that an argument names: a file, or standard input for `-`.

    Raises:
      InputError: the name is empty.
    """
    if not name:
        raise InputError("the input has no name", remedy='give a file, or "-" for standard input')
    return STANDARD_INPUT if name == "-" else Path(name)


def is_file(source: Path | str) -> bool:
    """Returns whether a source can be read more than once, which means that it is neither standard input nor a pipe."""
    return isinstance(source, Path) and source.is_file()


def format_of(source: Path | str, suffixes: Mapping[str, str] = SUFFIXES) -> str | None:
    """Returns the format by the ending of a file's name, ignoring .gz; None if the ending is unknown."""
    return suffixes.get(Path(str(source).lower().removesuffix(".gz")).suffix)


@contextlib.contextmanager
def naming_rows(source: Path | str, layout: str | None) -> Iterator[None]:
    """Makes an `InputError` raised in the block name a row instead of a line if the source is a Parquet file."""
    with errors_name_rows(source) if (layout or format_of(source)) == "parquet" else contextlib.nullcontext():
        yield


def lines_in(source: Path | str, on_idle: Callable[[], None] | None = None) -> Iterator[tuple[int, str]]:
    """Yields (line number, line) for a file, or for a stream as its lines arrive.

    A file whose name ends in .gz is decompressed.

    Arguments:
      source: the input, as `source_of` returns it.
      on_idle: as in `lines_of`, for a stream.

    Raises:
      InputError: as in `read_lines` for a file; as in `opened`, `lines_of` and `decode_lines` for a stream.
    """
    if is_file(source):
        yield from read_lines(Path(source))
        return
    with opened(source) as descriptor:
        yield from decode_lines(lines_of(descriptor, source, on_idle), source)


def records(
    source: Path | str,
    parts: Mapping[str, str],
    layout: str | None = None,
    quoted: bool = False,
    on_idle: Callable[[], None] | None = None,
) -> Iterator[Record]:
    """Yields (line number, fields) for each record, with all its fields. Rows of Parquet are counted from 0.

    Values that JSON cannot hold become texts or, as NaN does, null.

    Arguments:
      source: the input, as `source_of` returns it.
      parts: column that each record must have -> its name in --columns. Each holds a text that is not empty.
      layout: one of `FORMATS`; None: the format by the file's name, or else TSV if `quoted`, or else by the first line:
        JSON begins with a brace, and anything else is TSV.
      quoted: whether TSV is written with quotation marks.
      on_idle: as in `lines_of`, for a stream.

    Raises:
      InputError: a record cannot be read, or lacks a text.
    """
    layout = layout or format_of(source) or ("tsv" if quoted else None)
    if layout == "parquet":
        if source == STANDARD_INPUT:
            raise InputError("Parquet cannot be read from a stream", path=source, remedy="give a file")
        rows = read_parquet(Path(source), parts, parts=parts)[1]
        found = ((number, json.loads(json.dumps(without_nan(row), default=str))) for number, row in rows)
    else:
        quoted_by = "," if layout == "csv" else "\t" if layout == "tsv" and quoted else None
        lines = lines_in(source, on_idle)
        if layout is None:
            lines = without_blank(lines)
            first = list(itertools.islice(lines, 1))
            layout = "jsonl" if first and first[0][1].lstrip().startswith("{") else "tsv"
            lines = itertools.chain(first, lines)
        if layout == "jsonl":
            found = ((number, without_nan(object_of(line, source, number))) for number, line in without_blank(lines))
        else:
            names, found = read_table(source, list(parts), quoted_by=quoted_by, lines=lines, parts=parts)
            check_unique(names, filter(None, names), source)  # all of them go to the output
    for number, fields in found:
        for key in parts:
            if not text_of(fields, key, source, number, parts).strip():
                raise InputError(f"{key} is empty", path=source, line=number)
        yield number, fields
