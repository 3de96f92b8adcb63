"""The one error that a user is meant to read, and the remedy that it names most often."""

import os
from collections.abc import Iterable
from typing import Any

from jaxmatch.printable import printable


class InputError(ValueError):
    """What the user gave cannot be used: a file, a line of it, a setting, a name.

    Its text is one line that says which file, which line, what is wrong and what to do, so that a program
    can print it without a traceback and exit with status 2. Control characters in it are escaped.

    Arguments:
      problem: what is wrong.
      path: the file or folder it is wrong in.
      line: the line in that file, counted from 1.
      remedy: what to do about it.
    """

    def __init__(
        self,
        problem: str,
        *,
        path: str | os.PathLike | None = None,
        line: int | None = None,
        remedy: str | None = None,
    ):
        self.problem, self.path, self.line, self.remedy = problem, path, line, remedy
        place = "" if path is None else printable(os.fspath(path)) + (": " if line is None else f":{line}: ")
        text = f"{problem}" + (f"; {remedy}" if remedy else "")
        super().__init__(place + printable(" ".join(text.split())))


class UnknownOption(InputError):
    """A launched file has no such option.

    Arguments:
      option: with its dashes.
      known: the names of those that it has.
      **more: of `InputError`.
    """

    def __init__(self, problem: str, *, option: str, known: Iterable[str] = (), **more: Any):
        super().__init__(problem, **more)
        self.option, self.known = option, tuple(known)


def first_line(error: object) -> str:
    """The first line of an error's text, or the name of its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class NotFinite(InputError):
    """The output of a model for a pair is not finite.

    Arguments:
      pair: its position among the pairs, from 0.
    """

    def __init__(self, pair: int):
        super().__init__(f"the model's output for pair {pair} is not finite", remedy="train the model again")
        self.pair = pair


def nearest(name: object, known: Iterable[object]) -> str:
    """A remedy that names the closest of the known names."""
    import difflib  # only where something is wrong

    known = [str(one) for one in known if str(one)]
    close = difflib.get_close_matches(str(name)[:99], known, n=1, cutoff=0.5)
    if not close and "." in str(name):  # the last part often says what was meant
        close = [one for one in known if one.rsplit(".", 1)[-1] == str(name).rsplit(".", 1)[-1]][:1]
    return f'did you mean "{close[0]}"?' if close else "known: " + ", ".join(known)


def near(word: str, known: Iterable[str]) -> str:
    """`did you mean "…"?`, or "" where nothing is close."""
    remedy = nearest(word, known)
    return remedy if remedy.endswith("?") else ""
