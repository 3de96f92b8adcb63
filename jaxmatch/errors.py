"""Errors that are written for the user, and text that is safe to print."""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# C0, DEL and C1; marks that change the direction of what follows; line and paragraph separators; lone surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# The remedy for a sweep whose folder has no record of a finished run.
WAIT_OR_RESUME = "wait, or run the sweep again to resume it"


def count_text(number: int, singular: str, plural: str = "") -> str:
    """Returns a number with its noun: "1 run" or "2,000 runs". Without `plural`, an s is added."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def printable(text: str, keep: str = "") -> str:
    r"""Returns `text` with its control characters, except those in `keep`, written as `\n`, `\x1b` or `\u202e`.

    A byte of a file name that is not UTF-8 reaches Python as a surrogate. It is written as that byte.
    """

    def escaped(found: re.Match) -> str:
        code = ord(found[0])
        code -= 0xDC00 if 0xDC80 <= code <= 0xDCFF else 0
        return chr(code).encode("unicode_escape").decode()

    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else escaped(found), text)


def aligned(rows: Iterable[Iterable[object]]) -> str:
    """Formats rows as columns that are safe to print: the first one aligned to the left, the others to the right."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    lines = ([row[0].ljust(first), *map(str.rjust, row[1:], others)] for row in cells)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def shown(value: Any, limit: int = 60) -> str:
    """Returns the repr of `value` for an error message, cut to at most `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 4]}...{text[-1]}"


def listed(names: Iterable[Any], most: int = 8) -> str:
    """Joins the first `most` names with commas, for an error message."""
    names = list(names)
    return ", ".join([shown(name, 30) for name in names[:most]] + ["..."] * (len(names) > most))


def without_nan(value: Any) -> Any:
    """Returns nested plain values with None for every NaN and infinity, which JSON cannot represent."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def rounded(value: Any) -> Any:
    """Returns nested values and arrays as plain ones with six digits after the point, as answers about texts have."""
    text = json.dumps(value, default=lambda array: array.astype(float).tolist())
    return json.loads(text, parse_float=lambda number: round(float(number), 6))


def printable_json(value: Any, **options: Any) -> str:
    """Returns `value` as JSON that any program reads and that is safe to print. NaN and infinity become null.

    The options and the errors are those of `json.dumps`.
    """
    text = json.dumps(without_nan(value), ensure_ascii=False, **options)
    return _CONTROL.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


class Row(int):
    """The number of a row of a table without lines, such as Parquet, counted from 0. Errors call it a row."""


class InputError(ValueError):
    """The error about input that cannot be used: a file, a line of a file, a setting, a name.

    Its text is one line, without control characters: the file or folder, the line counted from 1 (or a `Row`), the
    problem and the remedy.
    """

    def __init__(self, problem: str, *, path: Any = None, line: int | None = None, remedy: str | None = None):
        self.problem, self.path, self.line, self.remedy = problem, path, line, remedy
        number = "" if line is None else f", row {line}" if isinstance(line, Row) else f":{line}"
        place = "" if path is None else f"{printable(os.fspath(path))}{number}: "
        text = f"{problem}; {remedy}" if remedy else problem
        super().__init__(place + printable(" ".join(text.split())))

    def at(self, path: Any, line: int | None) -> "InputError":
        """Returns the error with another place."""
        return InputError(self.problem, path=path, line=line, remedy=self.remedy)


class NotInstalled(InputError):
    """The error about a package, of an extra of this project, that `purpose` needs; `otherwise` is another remedy."""

    def __init__(self, purpose: str, package: str | None, extra: str, otherwise: str = "", path: Any = None):
        remedy = f"pip install 'jaxmatch[{extra}]'" + (f", {otherwise}" if otherwise else "")
        super().__init__(f"{purpose} needs {package}, which is not installed", path=path, remedy=remedy)


class NotFinite(InputError):
    """The error about a pair, counted from 0, for which the output of a model is not finite."""

    def __init__(self, pair: int):
        super().__init__(f"the model's output for pair {pair} is not finite", remedy="train the model again")
        self.pair = pair


@contextlib.contextmanager
def report_damage(path: str | os.PathLike, remedy: str, what: str = "the file") -> Iterator[None]:
    """Changes an error of the block, which reads a file of a known form, to one `InputError`: `what` is damaged."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, RecursionError) as error:
        raise InputError(f"{what} is damaged ({error})", path=path, remedy=remedy) from None


def first_line(error: object) -> str:
    """Returns the first line of an error's text that is not blank, or the name of its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def nearest(name: object, known: Iterable[object]) -> str:
    """Returns a remedy that names the closest of the known names, or all of them if no name is close."""
    import difflib  # imported only for an error

    known = [str(one) for one in known if str(one)]
    word, names = str(name)[:99].lstrip("-"), {one.lstrip("-"): one for one in reversed(known)}
    cutoff = 0.6 if str(name).startswith("--") else 0.5  # among many options, a word is like one of them by chance
    close = [names[one] for one in difflib.get_close_matches(word, names, n=1, cutoff=cutoff)]
    if not close and "." in str(name):  # the last part often tells which name was meant
        close = [one for one in known if one.rsplit(".", 1)[-1] == str(name).rsplit(".", 1)[-1]][:1]
    return f'did you mean "{close[0]}"?' if close else "known: " + ", ".join(known)


def check_plain_file(path: str | os.PathLike, remedy: str | None = None) -> bool:
    """Returns whether there is a file at `path`. A folder, device or pipe, which may never end, is an `InputError`."""
    if Path(path).exists() and not Path(path).is_file():
        raise InputError("this is not a file", path=path, remedy=remedy)
    return Path(path).is_file()


def require_plain_file(path: str | os.PathLike, *, missing: str = "there is no such file", remedy: str = "") -> None:
    """Raises an `InputError` about the problem `missing` if there is no file at `path`, or as `check_plain_file`."""
    if not check_plain_file(path, remedy):
        raise InputError(missing, path=path, remedy=remedy)
