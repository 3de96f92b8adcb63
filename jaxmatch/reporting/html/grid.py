"""Tables of a page, and the order in which a click on a heading sorts the rows."""

import re
from collections.abc import Iterable, Mapping, Sequence

from jaxmatch.reporting.tables.formats import NOTHING, Sheet, Text

_NUMBER = re.compile(r"([+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?: (s|min|h)\b)?")
_SECONDS = {"s": 1, "min": 60, "h": 3600}


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool] = ()) -> Sheet:
    """A table of plain texts.

    Arguments:
      headings: one a column.
      rows: one text a column.
      numeric: one a column; True for numbers, which stand at the right. Default: none are.
    """
    body = tuple(tuple(map(Text, row)) for row in rows)
    return Sheet("", (), (), tuple(headings), tuple(numeric) or (False,) * len(headings), (), (body,))


def ranks(sheet: Sheet) -> list[Mapping[str, int]]:
    """For each column the place of its texts in rising order, from 0: by value in a column of numbers ("1,024",
    "83.4 ± 2.3", "−0.5 (p = 0.02)", "12 min"), else as text. What has no value has no place.
    """
    columns = zip(*(row for section in sheet.sections for row in section), strict=True)
    return [_places({text.content for text in column}, numeric) for column, numeric in zip(columns, sheet.numeric)]


def _places(texts: Iterable[str], numeric: bool) -> Mapping[str, int]:
    texts = [text for text in texts if text not in ("", NOTHING)]
    values = {text: value for text in texts if (value := _number(text, whole=not numeric)) is not None}
    known = values if numeric or len(values) == len(texts) else {text: text.casefold() for text in texts}
    place = {value: number for number, value in enumerate(sorted(set(known.values())))}
    return {text: place[value] for text, value in known.items()}


def _number(text: str, whole: bool) -> float | None:
    """The number that a text is, or begins with; None if there is none."""
    found = _NUMBER.fullmatch(text) if whole else _NUMBER.match(text)
    return float(found[1].replace(",", "").replace("−", "-")) * _SECONDS.get(found[2], 1) if found else None
