"""The printed forms of a table: Markdown, LaTeX and CSV."""

import csv
import io
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxmatch.errors import printable

NO_VALUE = "–"  # the text of a cell that has no value

# Character -> LaTeX. At the start of a row, LaTeX would read [ and * as arguments of the line break before it.
_ESCAPES = r"""
    & \& % \% $ \$ # \# _ \_ { \{ } \} [ {[} * {*} \ \textbackslash{} ~ \textasciitilde{} ^ \textasciicircum{}
    < \textless{} > \textgreater{} | \textbar{} ` \textasciigrave{} " \textquotedbl{} … \ldots{} “ `` ” '' – -- — ---
    ± $\pm$ × $\times$ · $\cdot$ ≥ $\geq$ ≤ $\leq$ → $\rightarrow$ − $-$ √ $\surd$
""".split()
LATEX = dict(zip(_ESCAPES[::2], _ESCAPES[1::2], strict=True))
# Marks of Markdown, the beginning of an entity such as "&lt;", and underscores at the edge of a word.
_MARKDOWN = re.compile(r"([\\|*`~<\[\]]|&(?=#?\w+;))|(?<![^\W_])(_)|(_)(?![^\W_])")
# The beginning of a line that would become a heading, a quotation or a list.
_BLOCK = re.compile(r"^((?=[#>+-])|\d+(?=[.)]))")


class Text(NamedTuple):
    """The content of a cell: plain text, not yet escaped, and whether it is the best of its column."""

    content: str
    bold: bool = False


class Sheet(NamedTuple):
    """A table as it is printed.

    Attributes:
      title: one sentence, without its full stop.
      caption: sentences that follow the title, below the table: what a reader must know.
      notes: points about single rows or settings, and `details`: sentences about how the numbers came about. Both are
        printed below a rule.
      headings: the headings, one per column.
      numeric: for each column, whether it holds numbers, which are aligned right.
      sections: groups of rows, with a rule between groups. A row has one cell per column.
    """

    title: str
    caption: tuple[str, ...]
    notes: tuple[str, ...]
    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    sections: tuple[tuple[tuple[Text, ...], ...], ...]
    details: tuple[str, ...] = ()


def escape_markdown(text: str) -> str:
    """Escapes text so that Markdown prints it as it is. An underscore inside a word needs no escape and gets none."""
    return _MARKDOWN.sub(r"\\\g<0>", printable(" ".join(text.split())))


def escape_latex(text: str) -> str:
    """Escapes text so that LaTeX prints it as it is."""
    # LaTeX makes a dash of adjacent hyphens, and a quotation mark of adjacent apostrophes or commas.
    words = re.split("(?<=[-–—])(?=[-–—])|(?<=['”])(?=['”])|(?<=,)(?=,)", printable(" ".join(text.split())))
    return "{}".join("".join(LATEX.get(character, character) for character in word) for word in words)


def markdown(sheet: Sheet, verbose: bool = True) -> str:
    """Formats a sheet in GitHub's Markdown, with padded columns so that it can be read in a terminal, too. Details and
    notes are left out unless `verbose`.
    """

    def cell(text: Text) -> str:
        content = escape_markdown(text.content)
        return f"**{content}**" if text.bold and content else content

    def block(sentences: Iterable[str]) -> str:
        return _BLOCK.sub(r"\1\\", " ".join(map(escape_markdown, sentences)))

    lines = [list(map(escape_markdown, sheet.headings))]
    lines += [list(map(cell, row)) for section in sheet.sections for row in section]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * (width - number) + ":" * number for width, number in zip(widths, sheet.numeric)])

    def padded(line: list[str]) -> str:
        columns = zip(line, widths, sheet.numeric, strict=True)
        return f"| {' | '.join(text.rjust(width) if right else text.ljust(width) for text, width, right in columns)} |"

    caption = " ".join([f"**{escape_markdown(sheet.title)}.**", *map(escape_markdown, sheet.caption)])
    blocks = ["\n".join(map(padded, lines)), caption]
    if verbose and (sheet.details or sheet.notes):
        notes = "\n".join(f"- {block([each])}" for each in sheet.notes)
        blocks += ["---", *filter(None, (block(sheet.details), notes))]
    return "\n\n".join(blocks) + "\n"


def latex(sheet: Sheet) -> str:
    """Formats a sheet as a floating LaTeX table with the rules of booktabs, to be included in a document. Details and
    notes are comments at its end.
    """

    def cell(text: Text) -> str:
        content = escape_latex(text.content)
        return rf"\textbf{{{content}}}" if text.bold and content else content

    label = re.sub(r"[^a-z0-9]+", "-", sheet.title.lower()).strip("-") or "scores"
    caption = " ".join(map(escape_latex, (sheet.title + ".", *sheet.caption)))
    lines = [
        r"% Needs \usepackage{booktabs} and \usepackage[T1]{fontenc}.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in sheet.numeric)}}}",
        r"\toprule",
        " & ".join(map(escape_latex, sheet.headings)) + r" \\",
    ]
    for section in sheet.sections:
        lines += [r"\midrule", *(" & ".join(map(cell, row)) + r" \\" for row in section)]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join([*lines, *(f"% {escape_latex(each)}" for each in (*sheet.details, *sheet.notes))]) + "\n"


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Formats rows of cells as CSV. Control characters in texts are escaped, and None becomes an empty cell."""
    written = io.StringIO()
    lines = ([printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    csv.writer(written, lineterminator="\n").writerows(lines)
    return written.getvalue()
