"""CSV that a spreadsheet can open safely: no cell is taken for a formula."""

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

from jaxmatch.printable import printable

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
# A spreadsheet computes a cell that begins with one of these (https://owasp.org/www-community/attacks/CSV_Injection).
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Formats rows of cells as CSV.

    A text that a spreadsheet would compute gets an apostrophe in front, so that spreadsheets take it for text. Control
    characters are escaped. Numbers stay as they are, including negative numbers and numbers given as text. None becomes
    an empty cell.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = str(value)
    formula = text.lstrip(" ").startswith(_BEGINS_A_FORMULA) and not _NUMBER.fullmatch(text)
    return "'" * formula + printable(text)
