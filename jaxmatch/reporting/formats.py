"""The printed forms of a table: Markdown, LaTeX, and CSV that a spreadsheet can open safely."""

import csv
import dataclasses
import io
import re
from collections.abc import Iterable
from typing import Any

from jaxmatch.errors import printable

NO_VALUE = "–"  # the text of a cell that has no value

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    # At the start of a row, LaTeX would read these two as arguments of the line break before it.
    "[": "{[}",
    "*": "{*}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "→": r"$\rightarrow$",
    "−": r"$-$",
    "√": r"$\surd$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "“": "``",
    "”": "''",
}
# Marks of Markdown, the beginning of an entity such as "&lt;", and underscores at the edge of a word.
_MARKDOWN = re.compile(r"([\\|*`~<\[\]]|&(?=#?\w+;))|(?<![^\W_])(_)|(_)(?![^\W_])")
# A line that begins with one of these would become a heading, a quotation or a list.
_BLOCK = re.compile(r"[#>+-]|\d+(?=[.)])")


@dataclasses.dataclass(frozen=True)
class Text:
    """The content of a cell.

    Attributes:
      content: plain text, not yet escaped.
      bold: whether the text is the best of its column.
    """

    content: str
    bold: bool = False


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table as it is printed.

    Attributes:
      title: one sentence, without its full stop.
      caption: sentences that belong to the title.
      notes: sentences printed below.
      headings: the headings, one per column.
      numeric: for each column, whether it holds numbers, which are aligned right.
      spans: ((heading, columns), ...) above the headings, from left to right, with "" for no heading; or empty.
      sections: groups of rows, with a rule between groups. A row has one cell per column.
    """

    title: str
    caption: tuple[str, ...]
    notes: tuple[str, ...]
    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    spans: tuple[tuple[str, int], ...]
    sections: tuple[tuple[tuple[Text, ...], ...], ...]


def escape_markdown(text: str) -> str:
    """Escapes text so that Markdown prints it as it is. An underscore inside a word needs no escape and gets none."""
    return _MARKDOWN.sub(r"\\\g<0>", printable(" ".join(text.split())))


def _escape_line_start(line: str) -> str:
    """Escapes the beginning of an escaped line of Markdown that would begin a heading, a quotation or a list."""
    found = _BLOCK.match(line)
    if not found:
        return line
    return f"{found[0]}\\{line[found.end() :]}" if found[0].isdigit() else f"\\{line}"


def escape_latex(text: str) -> str:
    """Escapes text so that LaTeX prints it as it is."""
    # LaTeX makes a dash of adjacent hyphens, and a quotation mark of adjacent apostrophes or commas.
    words = re.split("(?<=[-–—])(?=[-–—])|(?<=['”])(?=['”])|(?<=,)(?=,)", printable(" ".join(text.split())))
    return "{}".join("".join(LATEX.get(character, character) for character in word) for word in words)


def _column_headings(sheet: Sheet) -> list[str]:
    """Returns the headings, each after the heading that spans it, for a format with one line of headings."""
    above = [heading for heading, columns in sheet.spans for _ in range(columns)] or [""] * len(sheet.headings)
    return [f"{over}: {under}" if over else under for over, under in zip(above, sheet.headings, strict=True)]


def markdown(sheet: Sheet) -> str:
    """Formats a sheet in GitHub's Markdown, with padded columns so that it can be read in a terminal, too."""

    def cell(text: Text) -> str:
        content = escape_markdown(text.content)
        return f"**{content}**" if text.bold and content else content

    lines = [[escape_markdown(heading) for heading in _column_headings(sheet)]]
    lines += [[cell(text) for text in row] for section in sheet.sections for row in section]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(sheet.headings))]

    def padded(line: list[str]) -> str:
        parts = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, sheet.numeric, strict=True)
        )
        return f"| {' | '.join(parts)} |"

    rule = [
        "-" * (width - 1) + ":" if number else "-" * width for width, number in zip(widths, sheet.numeric, strict=True)
    ]
    blocks = [" ".join([f"**{escape_markdown(sheet.title)}.**", *map(escape_markdown, sheet.caption)])]
    blocks.append("\n".join([padded(lines[0]), padded(rule), *map(padded, lines[1:])]))
    if sheet.notes:
        blocks.append("\n".join(f"- {_escape_line_start(escape_markdown(note))}" for note in sheet.notes))
    return "\n\n".join(blocks) + "\n"


def _latex_spans(sheet: Sheet) -> list[str]:
    cells, rules, column = [], [], 1
    for heading, columns in sheet.spans:
        if heading:
            cells.append(rf"\multicolumn{{{columns}}}{{c}}{{{escape_latex(heading)}}}")
            rules.append(rf"\cmidrule(lr){{{column}-{column + columns - 1}}}")
        else:
            cells.extend([""] * columns)
        column += columns
    return [" & ".join(cells) + r" \\", " ".join(rules)]


def latex(sheet: Sheet) -> str:
    """Formats a sheet as a floating LaTeX table with the rules of booktabs, to be included in a document."""

    def cell(text: Text) -> str:
        content = escape_latex(text.content)
        return rf"\textbf{{{content}}}" if text.bold and content else content

    label = re.sub(r"[^a-z0-9]+", "-", sheet.title.lower()).strip("-") or "scores"
    caption = " ".join(map(escape_latex, (sheet.title + ".", *sheet.caption, *sheet.notes)))
    lines = [
        r"% Needs \usepackage{booktabs} and \usepackage[T1]{fontenc}.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in sheet.numeric)}}}",
        r"\toprule",
        *(_latex_spans(sheet) if sheet.spans else []),
        " & ".join(map(escape_latex, sheet.headings)) + r" \\",
    ]
    for section in sheet.sections:
        lines.append(r"\midrule")
        lines += [" & ".join(map(cell, row)) + r" \\" for row in section]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


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
