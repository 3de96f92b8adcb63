"""Texts, read one from each line, or from the column `text` of a file in a format of training data."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from jaxmatch.cli import record_input
from jaxmatch.data.tables import without_blank
from jaxmatch.errors import InputError

FORMATS = ("text", *record_input.FORMATS)
_SUFFIXES = {**record_input.SUFFIXES, ".txt": "text"}
_COLUMN, _EXAMPLE = "text", "text=question"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --format, --columns and --quoted."""
    record_input.add_arguments(parser, FORMATS, _EXAMPLE, "from its name, or else one text per line")


def layout_of(source: Path | str, arguments: argparse.Namespace, *, alone: bool) -> str:
    """Returns the format of an input, one of `FORMATS`. The arguments are those of `texts_of`.

    Raises:
      InputError: --columns or --quoted is given with `--format text`.
    """
    has_columns = bool(arguments.columns or arguments.quoted)
    suffixes = record_input.SUFFIXES if has_columns and alone else _SUFFIXES
    layout = arguments.format or record_input.format_of(source, suffixes) or ("tsv" if has_columns else "text")
    if layout == arguments.format == "text" and has_columns:
        raise InputError("plain text has no columns and no quotation marks", remedy="leave out --format text")
    return layout


def texts_of(source: Path | str, arguments: argparse.Namespace, *, alone: bool = True) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) for each text of a file or of standard input. Rows of Parquet are counted from 0.

    Arguments:
      source: the input, as `record_input.source_of` returns it.
      arguments: the arguments of the command, including those of `add_arguments`. Without --format, the file's name
        decides. Other input is TSV if --columns or --quoted is given, and otherwise each line is a text.
      alone: whether this is the only input of the command. Otherwise --columns and --quoted may be meant for the other
        one, and a file .txt holds one text per line all the same.

    Raises:
      InputError: a line has no text, or --columns or --quoted is given for plain text; also as in
        `record_input.records`.
    """
    column = record_input.known_columns(arguments.columns, (_COLUMN,), _EXAMPLE)[_COLUMN]
    layout = layout_of(source, arguments, alone=alone)
    with record_input.naming_rows(source, layout):
        if layout != "text":
            for number, fields in record_input.records(source, {column: _COLUMN}, layout, arguments.quoted):
                yield number, fields[column]
            return
        for number, text in without_blank(record_input.lines_in(source)):
            if not text.strip():
                raise InputError("the text is empty", path=source, line=number, remedy="fill it in, or remove the line")
            yield number, text


def all_texts(source: Path | str, arguments: argparse.Namespace, *, alone: bool = True) -> tuple[list[int], list[str]]:
    """Returns the line numbers and the texts of a whole input. The arguments are those of `texts_of`.

    Raises:
      InputError: the input holds no texts; also as in `texts_of`.
    """
    found = list(texts_of(source, arguments, alone=alone))
    if not found:
        raise InputError("holds no texts", path=source)
    return [number for number, _ in found], [text for _, text in found]
