"""Tables of a page, and the order in which a click on a heading sorts the rows."""

import re
from collections.abc import Iterable, Mapping, Sequence

from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text

_NUMBER = re.compile(r"([+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?: (s|min|h)\b)?")
_SECONDS = {"s": 1, "min": 60, "h": 3600}


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool] = ()) -> Sheet:
    """Builds a table of plain texts.

    Arguments:
      headings: the headings, one per column.
      rows: the rows, each with one text per column.
      numeric: for each column, whether it contains numbers, which are aligned right. By default, no column does.
    """
    body = tuple(tuple(map(Text, row)) for row in rows)
    return Sheet("", (), (), tuple(headings), tuple(numeric) or (False,) * len(headings), (), (body,))


def ranks(sheet: Sheet) -> list[Mapping[str, int]]:
    """Returns, for each column, the place of its texts in ascending order, from 0. A column of numbers ("1,024",
    "83.4 ± 2.3", "−0.5 (p = 0.02)", "12 min") is ordered by value, and any other column as text. Texts without a value
    have no place.
    """
    columns = zip(*(row for section in sheet.sections for row in section), strict=True)
    return [_places({text.content for text in column}, numeric) for column, numeric in zip(columns, sheet.numeric)]


def _places(texts: Iterable[str], numeric: bool) -> Mapping[str, int]:
    texts = [text for text in texts if text not in ("", NO_VALUE)]
    values = {text: value for text in texts if (value := _number(text, whole=not numeric)) is not None}
    known = values if numeric or len(values) == len(texts) else {text: text.casefold() for text in texts}
    place = {value: number for number, value in enumerate(sorted(set(known.values())))}
    return {text: place[value] for text, value in known.items()}


def _number(text: str, whole: bool) -> float | None:
    """Returns the number that a text is (`whole`) or begins with, or None if there is no such number."""
    found = _NUMBER.fullmatch(text) if whole else _NUMBER.match(text)
    return float(found[1].replace(",", "").replace("−", "-")) * _SECONDS.get(found[2], 1) if found else None
