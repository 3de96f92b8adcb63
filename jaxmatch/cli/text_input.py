"""Reads texts, one a line: plain, or JSON lines with the key `text`."""

from collections.abc import Callable, Iterator
from pathlib import Path

from jaxmatch.cli.stream import STANDARD_INPUT, lines_of, opened
from jaxmatch.data.readers.lines import decode_lines, object_of, text_of
from jaxmatch.errors import InputError

FORMATS = ("text", "jsonl")
_SUFFIXES = {".jsonl": "jsonl", ".json": "jsonl"}


def source_of(name: str) -> Path | str:
    """What an argument names: a file, or standard input for `-`."""
    return STANDARD_INPUT if name == "-" else Path(name)


def texts_of(
    source: Path | str, layout: str | None = None, when_silent: Callable[[], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) of a file or of standard input.

    Arguments:
      source: as `source_of` gives it.
      layout: "text" or "jsonl"; None decides by the file's name.
      when_silent: as `lines_of` takes it.

    Raises:
      InputError: a line without a text.
    """
    layout = layout or _SUFFIXES.get(Path(source).suffix.lower(), "text")
    with opened(source) as descriptor:
        for number, line in decode_lines(lines_of(descriptor, source, when_silent), source):
            text = text_of(object_of(line, source, number), "text", source, number) if layout == "jsonl" else line
            if not text.strip():
                raise InputError("the text is empty", path=source, line=number)
            yield number, text


def all_texts(source: Path | str, layout: str | None = None) -> tuple[list[int], list[str]]:
    """The line numbers and texts of a whole file.

    Raises:
      InputError: as `texts_of`, or there is none.
    """
    found = list(texts_of(source, layout))
    if not found:
        raise InputError("holds no texts", path=source)
    return [number for number, _ in found], [text for _, text in found]
