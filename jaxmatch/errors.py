"""The errors that are written for the user, and the remedy that they name most often."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from jaxmatch.printable import printable


class InputError(ValueError):
    """The error about input that cannot be used: a file, a line of a file, a setting, a name.

    The text of the error is a single line that states the file, the line, the problem and the remedy. A program can
    print it without a traceback and exit with status 2. Control characters in it are escaped.

    Arguments:
      problem: the problem.
      path: the file or folder that has the problem.
      line: the line in that file, counted from 1.
      remedy: the advice to the user.
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


# The remedy for a sweep whose folder has no record of a finished run.
WAIT_OR_RESUME = "wait, or run the sweep again to resume it"


class NotInstalled(InputError):
    """The error about an optional package that is not installed.

    Arguments:
      purpose: what needs the package; the subject of a sentence.
      package: the package.
      extra: the extra of this project that installs it.
      otherwise: another remedy, which follows the first one.
      path: the file that needs the package.
    """

    def __init__(
        self, purpose: str, package: str | None, extra: str, otherwise: str = "", path: str | os.PathLike | None = None
    ):
        remedy = f"pip install 'jaxmatch[{extra}]'" + (f", {otherwise}" if otherwise else "")
        super().__init__(f"{purpose} needs {package}, which is not installed", path=path, remedy=remedy)


class UnknownOption(InputError):
    """The error about an option that a launched file does not have.

    Arguments:
      problem: the problem.
      option: the option, with its dashes.
      known: the names of the options that the file has.
      **more: the other arguments of `InputError`.
    """

    def __init__(self, problem: str, *, option: str, known: Iterable[str] = (), **more: Any):
        super().__init__(problem, **more)
        self.option, self.known = option, tuple(known)


@contextlib.contextmanager
def report_damage(path: str | os.PathLike, remedy: str, what: str = "the file") -> Iterator[None]:
    """Changes an error of the block, which reads a file of a known form, to an `InputError` that calls it damaged.

    An `InputError` and an `OSError` stay as they are.

    Arguments:
      path: the file.
      remedy: the remedy in the error.
      what: what is damaged.
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise InputError(f"{what} is damaged ({error})", path=path, remedy=remedy) from None


def first_line(error: object) -> str:
    """Returns the first line of an error's text that is not blank, or the name of its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class NotFinite(InputError):
    """The error about a pair for which the output of a model is not finite.

    Arguments:
      pair: the position of the pair, counted from 0.
    """

    def __init__(self, pair: int):
        super().__init__(f"the model's output for pair {pair} is not finite", remedy="train the model again")
        self.pair = pair


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns `did you mean "…"?` with the closest of the known names, or "" if no name is close."""
    remedy = nearest(word, known)
    return remedy if remedy.endswith("?") else ""
