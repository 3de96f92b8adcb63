"""Pairs and texts, read one by one from a file or as they arrive, and their predictions."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jaxmatch.cli.common import STANDARD_INPUT
from jaxmatch.data.pairs import (
    decode_lines,
    object_of,
    read_lines,
    read_parquet,
    read_table,
    require_columns,
    text_of,
    without_blank,
)
from jaxmatch.errors import FOLDER, InputError, NotFinite, kind, printable_json, without_nan

IDLE_SECONDS = 0.05  # seconds without a byte, after which the lines that have arrived are processed
MAX_LINE_BYTES = 2**26
BLOCK_BYTES = 2**20


@contextlib.contextmanager
def opened(source: Path | str) -> Iterator[int]:
    """Yields the descriptor of a file, or of standard input, which stays open afterwards.

    Raises:
      InputError: the file does not exist or is a folder, or standard input is closed.
    """
    if source == STANDARD_INPUT:
        try:
            descriptor = sys.stdin.fileno()
        except (AttributeError, ValueError):  # an io.UnsupportedOperation, in a notebook, is a ValueError
            raise InputError("standard input is closed", remedy="give --input a file, or a pipe") from None
        yield descriptor
        return
    if kind(source) == FOLDER:
        raise InputError("this is a folder, not a file", path=source, remedy="give a file")
    try:
        file = open(source, "rb", buffering=0)
    except FileNotFoundError:
        raise InputError("there is no such file", path=source) from None
    with file:
        yield file.fileno()


def lines_of(descriptor: int, name: Path | str, on_idle: Callable[[], None] | None = None) -> Iterator[bytes]:
    r"""Yields the lines of a file, a pipe or a terminal, each with its b"\n", in constant memory.

    Arguments:
      descriptor: the descriptor to read from.
      name: the name of the file or stream, for error messages.
      on_idle: the function to call whenever no byte has arrived for `IDLE_SECONDS` seconds, before waiting for more.
        None, as for a file: no function is called.

    Raises:
      InputError: a line has more than 64 MiB.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    line, number = bytearray(), 1
    while True:
        if on_idle is not None and not poll.poll(1000 * IDLE_SECONDS):
            on_idle()
        poll.poll()  # the descriptor may be one that does not wait
        block = os.read(descriptor, BLOCK_BYTES)
        if not block:
            break
        *ended, begun = block.split(b"\n")
        for piece in ended:
            line += piece
            line += b"\n"
            yield bytes(line)
            line.clear()
            number += 1
        line += begun
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"the line has more than {MAX_LINE_BYTES:,} bytes",
                path=name,
                line=number,
                remedy="a pair is one line of text",
            )
    if line:
        yield bytes(line)


RECORD_FORMATS = ("tsv", "csv", "jsonl", "parquet")
RECORD_SUFFIXES = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
Record = tuple[int, dict[str, Any]]


def add_record_arguments(parser: argparse.ArgumentParser, formats: Sequence[str], example: str, default: str) -> None:
    """Adds --format, --columns and --quoted."""
    parser.add_argument("--format", choices=formats, help=f"format of the input (default: {default})")
    parser.add_argument("--columns", default="", metavar="A=B,...", help=f"columns with other names: {example}")
    parser.add_argument("--quoted", action="store_true", help="TSV with quotation marks, as in CSV")


def known_columns(text: str, known: Sequence[str], example: str) -> dict[str, str]:
    """Parses --columns. Returns known part -> its column in the file; a part that is not given is its own column.

    Raises:
      InputError: as in `columns_of`.
    """
    from jaxmatch.data.own import columns_of

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


def format_of(source: Path | str, suffixes: Mapping[str, str] = RECORD_SUFFIXES) -> str | None:
    """Returns the format by the ending of a file's name, ignoring .gz; None if the ending is unknown."""
    return suffixes.get(Path(str(source).lower().removesuffix(".gz")).suffix)


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
      layout: one of `RECORD_FORMATS`; None: the format by the file's name, or else TSV if `quoted`, or else by the
        first line: JSON begins with a brace, and anything else is TSV.
      quoted: whether TSV is written with quotation marks.
      on_idle: as in `lines_of`, for a stream.

    Raises:
      InputError: a record cannot be read, or lacks a text.
    """
    layout = layout or format_of(source) or ("tsv" if quoted else None)
    if layout == "parquet":
        if source == STANDARD_INPUT:
            raise InputError("Parquet cannot be read from a stream", path=source, remedy="give a file")
        rows = read_parquet(Path(source), list(parts))[1]
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
            names, found = read_table(source, list(parts), quoted_by=quoted_by, lines=lines)
            require_columns(names, list(filter(None, names)), source, 1)  # all of them go to the output
    for number, fields in found:
        for key in parts:
            try:
                empty = not text_of(fields, key).strip()
            except InputError as error:
                raise error.at(source, number) from None
            if empty:
                raise InputError(f"{key} is empty", path=source, line=number)
        yield number, fields


TEXT_FORMATS = ("text", *RECORD_FORMATS)
_TEXT_SUFFIXES = {**RECORD_SUFFIXES, ".txt": "text"}
_COLUMN, _TEXT_EXAMPLE = "text", "text=question"


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --format, --columns and --quoted."""
    add_record_arguments(parser, TEXT_FORMATS, _TEXT_EXAMPLE, "from its name, or else one text per line")


def layout_of(source: Path | str, arguments: argparse.Namespace, *, alone: bool) -> str:
    """Returns the format of an input, one of `TEXT_FORMATS`. The arguments are those of `texts_of`.

    Raises:
      InputError: --columns or --quoted is given with `--format text`.
    """
    has_columns = bool(arguments.columns or arguments.quoted)
    suffixes = RECORD_SUFFIXES if has_columns and alone else _TEXT_SUFFIXES
    layout = arguments.format or format_of(source, suffixes) or ("tsv" if has_columns else "text")
    if layout == arguments.format == "text" and has_columns:
        raise InputError("plain text has no columns and no quotation marks", remedy="leave out --format text")
    return layout


def texts_of(source: Path | str, arguments: argparse.Namespace, *, alone: bool = True) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) for each text of a file or of standard input. Rows of Parquet are counted from 0.

    Arguments:
      source: the input, as `source_of` returns it.
      arguments: the arguments of the command, including those of `add_arguments`. Without --format, the file's name
        decides. Other input is TSV if --columns or --quoted is given, and otherwise each line is a text.
      alone: whether this is the only input of the command. Otherwise --columns and --quoted may be meant for the other
        one, and a file .txt holds one text per line all the same.

    Raises:
      InputError: a line has no text, or --columns or --quoted is given for plain text; also as in
        `records`.
    """
    column = known_columns(arguments.columns, (_COLUMN,), _TEXT_EXAMPLE)[_COLUMN]
    layout = layout_of(source, arguments, alone=alone)
    if layout != "text":
        for number, fields in records(source, {column: _COLUMN}, layout, arguments.quoted):
            yield number, fields[column]
        return
    for number, text in without_blank(lines_in(source)):
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


if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher, Prediction

RESULT_NAMES = ("label", "probabilities", "score")
# The number of pairs predicted together: enough to batch pairs of similar length, but few enough to be done soon.
CHUNK = 4096
# A pair of at most this many characters fits into the memory of every device. It has no more tokens than characters.
_SHORT = 8192


class PredictionQueue:
    """A queue of pairs, which are predicted many at once and written in their order.

    Arguments:
      matcher: the model.
      source: the name of the input, for error messages.
      output: the file to write the predictions to, as JSON lines.
      longest_wait: the seconds that a pair waits for others before all are predicted; None: no limit.
      columns: the names of the fields with the two texts.
    """

    def __init__(
        self,
        matcher: Matcher,
        source: Path | str,
        output: BinaryIO,
        longest_wait: float | None = None,
        columns: tuple[str, str] = ("text_a", "text_b"),
    ):
        self._matcher, self._source, self._output, self._longest_wait = matcher, source, output, longest_wait
        self._columns = columns
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._since = 0.0

    def add(self, line: int, fields: dict[str, Any]) -> None:
        """Adds a pair. Predicts the waiting pairs if there are enough, or if the first has waited for `longest_wait`.

        Arguments:
          line: the number of the pair in the input, as `record_input.records` yields it.
          fields: the texts, and the other fields of the pair. All are copied to the output.

        Raises:
          InputError: the texts are too long for the memory of the device; also as in `write`.
        """
        self._check_length(line, fields)
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append((line, fields))
        late = self._longest_wait is not None and time.monotonic() - self._since > self._longest_wait
        if late or len(self._waiting) >= CHUNK:
            self.write()

    def write(self) -> None:
        """Predicts the waiting pairs, and writes the predictions.

        Raises:
          InputError: a pair cannot be predicted. The predictions of the pairs before it are written.
        """
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            predictions: Iterable[Prediction] = self._predicted(waiting)
        except NotFinite as error:
            predictions = self._predictions_before(waiting, error.pair)
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            predictions = (self._predict_one(line, fields) for line, fields in waiting)
        try:
            for (line, fields), prediction in zip(waiting, predictions, strict=True):
                self._output.write(self._line(line, fields, prediction))
        finally:
            self._output.flush()

    def _texts(self, fields: dict[str, Any]) -> tuple[str, str]:
        return fields[self._columns[0]], fields[self._columns[1]]

    def _predicted(self, waiting: Sequence[tuple[int, dict[str, Any]]]) -> list[Prediction]:
        return self._matcher.predict([self._texts(fields) for _, fields in waiting])

    def _predictions_before(self, waiting: Sequence[tuple[int, dict[str, Any]]], wrong: int) -> Iterator[Prediction]:
        """Yields the predictions before the first pair without a finite output, then raises an error about it."""
        yield from self._predicted(waiting[:wrong])
        raise self._not_finite(waiting[wrong][0])

    def _not_finite(self, line: int) -> InputError:
        problem = "the model's output for this pair is not finite"
        return InputError(problem, path=self._source, line=line, remedy="train the model again")

    def _predict_one(self, line: int, fields: dict[str, Any]) -> Prediction:
        try:
            (prediction,) = self._predicted([(line, fields)])
        except NotFinite:
            raise self._not_finite(line) from None
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            raise InputError(
                "out of device memory on this pair",
                path=self._source,
                line=line,
                remedy="shorten its texts, or free device memory",
            ) from None
        return prediction

    def _check_length(self, line: int, fields: dict[str, Any]) -> None:
        """Checks that the prediction of a pair fits into the device's memory.

        Raises:
          InputError: the pair is too long. To predict it anyway might make the system end the process.
        """
        if sum(map(len, self._texts(fields))) <= _SHORT:
            return
        from jaxmatch.devices import device_bytes

        model, matcher = self._matcher.model, self._matcher
        tokens = sum(len(matcher.tokens(text)) for text in self._texts(fields))
        device = min(model.vectors.devices(), key=device_bytes)
        available = device_bytes(device)
        # The scores of the attention and their softmax, in float32, and a copy of both.
        needed = 4 * 4 * tokens**2
        if needed > available:
            raise InputError(
                f"this pair has {tokens:,} tokens; predicting it needs about {needed / 2**30:,.0f} GiB, and the device "
                f"has {available / 2**30:,.0f} GiB",
                path=self._source,
                line=line,
                remedy="shorten its texts, or train with config.data.maximum_length",
            )

    def _line(self, line: int, fields: dict[str, Any], prediction: Prediction) -> bytes:
        """Returns the line of output for a pair."""
        record = {}
        for key, value in fields.items():
            if key in RESULT_NAMES:
                key = f"input_{key}"
                while key in fields:
                    key = f"input_{key}"
            record[key] = value
        if prediction.score is None:
            record |= {"label": prediction.label, "probabilities": prediction.probabilities}
        else:
            record |= {"score": prediction.score}
        try:
            return f"{printable_json(record, allow_nan=False)}\n".encode()
        except ValueError:
            raise self._not_finite(line) from None


def _out_of_memory(error: Exception) -> bool:
    from jaxmatch.devices import is_out_of_memory

    return isinstance(error, MemoryError) or is_out_of_memory(error)
