"""CSV that a spreadsheet can open: no cell of it is taken for a formula."""

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

from jaxmatch.printable import printable

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
# At their beginning a spreadsheet computes what follows (https://owasp.org/www-community/attacks/CSV_Injection).
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows of cells as CSV.

    A text that a spreadsheet would compute gets an apostrophe in front, after which spreadsheets take it for text;
    control characters are escaped. Numbers stay as they are, also negative ones and those given as text. None is an
    empty cell.
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
