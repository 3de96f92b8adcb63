"""Reads the pairs to predict from a stream: TSV with a header, or JSON lines."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jaxmatch.data.readers.lines import decode_lines, object_of, refuse_carriage_returns
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

TEXTS = ("text_a", "text_b")
FORMATS = ("tsv", "jsonl")
_SUFFIXES = {".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}


def read_pairs(
    raw_lines: Iterable[bytes], name: Path | str, layout: str | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, fields) of every pair, `text_a` and `text_b` among the fields.

    Arguments:
      raw_lines: what iterating over a binary file gives.
      name: the file's name, for errors and for the layout.
      layout: "tsv" or "jsonl"; None decides by the file's name, or else by its first line: JSON begins with a brace.

    Raises:
      InputError: a line that is not a pair.
    """
    lines = decode_lines(raw_lines, name)
    first = next(lines, None)
    layout = layout or _SUFFIXES.get(Path(name).suffix.lower())
    if layout is None:
        layout = "jsonl" if first and first[1].lstrip().startswith("{") else "tsv"
    if first is None:
        if layout == "tsv":
            raise InputError("the file is empty", path=name, remedy="its first line must name text_a and text_b")
        return
    if layout == "tsv":
        records = _table_rows(first[1], lines, name)
    else:
        records = ((number, _object(line, name, number)) for number, line in _chain(first, lines))
    for number, fields in records:
        for key in TEXTS:
            if key not in fields:
                raise InputError(
                    f"there is no {key}", path=name, line=number, remedy="every pair needs text_a and text_b"
                )
            if not isinstance(fields[key], str):
                raise InputError(f"{key} is {shown(fields[key])}, not a text", path=name, line=number)
            if not fields[key].strip():
                raise InputError(f"{key} is empty", path=name, line=number)
        yield number, fields


def _chain(first: tuple[int, str], others: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from others


def _table_rows(
    header: str, lines: Iterator[tuple[int, str]], name: Path | str
) -> Iterator[tuple[int, dict[str, str]]]:
    columns = [column.strip() for column in header.split("\t")]
    missing = [key for key in TEXTS if key not in columns]
    if missing:
        refuse_carriage_returns(header, name)
        raise InputError(
            f"the header has no column {missing[0]}",
            path=name,
            line=1,
            remedy="the first line must name text_a and text_b, separated by tabs",
        )
    for position, column in enumerate(columns):
        if column in columns[:position]:
            raise InputError(f"the header names column {shown(column)} twice", path=name, line=1)
    for number, line in lines:
        values = line.split("\t")
        if len(values) != len(columns):
            raise InputError(
                f"{len(values)} column{'s' * (len(values) > 1)} where the header names {len(columns)}",
                path=name,
                line=number,
            )
        yield number, dict(zip(columns, values, strict=True))


def _object(line: str, name: Path | str, number: int) -> dict[str, Any]:
    value = object_of(line, name, number)
    try:
        json.dumps(value, allow_nan=False)  # what could not be written again is refused
    except RecursionError:
        raise InputError("the JSON is nested too deeply", path=name, line=number) from None
    except ValueError as error:
        raise InputError(f"not valid JSON ({error})", path=name, line=number) from None
    return value
