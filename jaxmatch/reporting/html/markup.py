"""Pieces of HTML. Every function takes plain text and escapes it."""

import html
from collections.abc import Iterable, Sequence

from jaxmatch.printable import printable
from jaxmatch.reporting.tables.formats import Sheet, Text


def escape(text: str) -> str:
    """Text as HTML, in an element or an attribute; of control characters, line ends alone stay."""
    return html.escape(printable(text, keep="\n"))


def element(tag: str, text: str, **attributes: str) -> str:
    """`<tag name="value">text</tag>`, escaped; an attribute that is a word of Python ends in an underscore."""
    named = "".join(f' {name.rstrip("_")}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{named}>{escape(text)}</{tag}>"


def bullets(items: Iterable[str]) -> str:
    """A list of plain texts; nothing if there are none."""
    rows = "".join(element("li", item) for item in items)
    return f"<ul>{rows}</ul>" if rows else ""


def folded(summary: str, content: str) -> str:
    """A part that is opened by a click. The content is HTML."""
    return f"<details>{element('summary', summary)}{content}</details>"


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool] = ()) -> str:
    """A table of plain texts.

    Arguments:
      headings: one a column.
      rows: one text a column.
      numeric: one a column; True for numbers, which stand at the right. Default: none are.
    """
    numeric = numeric or [False] * len(headings)
    return _table([_row("th", headings, numeric)], [[_row("td", row, numeric) for row in rows]], sortable=True)


def sheet(content: Sheet) -> str:
    """A printed table of results."""
    head = []
    if content.spans:
        over = "".join(
            f'<th colspan="{columns}" class="over">{escape(heading)}</th>' for heading, columns in content.spans
        )
        head.append(f"<tr>{over}</tr>")
    head.append(_row("th", content.headings, content.numeric))
    bodies = [
        ["".join(("<tr>", *map(_result, row, content.numeric), "</tr>")) for row in part] for part in content.sections
    ]
    caption = f"<caption><b>{escape(content.title)}.</b> {escape(' '.join(content.caption))}</caption>"
    return _table(head, bodies, caption) + bullets(content.notes)


def _result(text: Text, number: bool) -> str:
    shown = escape(text.content)
    return f"<td{_side(number)}>{f'<b>{shown}</b>' if text.bold and shown else shown}</td>"


def _side(number: bool) -> str:
    return ' class="number"' if number else ""


def _row(tag: str, texts: Sequence[str], numeric: Sequence[bool]) -> str:
    cells = (f"<{tag}{_side(number)}>{escape(text)}</{tag}>" for text, number in zip(texts, numeric, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _table(head: Sequence[str], bodies: Iterable[Iterable[str]], caption: str = "", sortable: bool = False) -> str:
    parts = "\n".join(f"<tbody>{''.join(rows)}</tbody>" for rows in bodies)
    kind = ' class="sortable"' if sortable else ""
    return f'<div class="wide"><table{kind}>{caption}<thead>{"".join(head)}</thead>\n{parts}</table></div>'
