"""What is said to a mistyped command, option or choice: the nearest one that there is."""

import argparse
import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator

from jaxmatch.cli.dotted import KINDS
from jaxmatch.errors import InputError, UnknownOption, near

# What argparse says of a word that is none of the choices; Python 3.12 left out their quotation marks.
_CHOICE = re.compile(r"invalid choice: '(?P<word>.*)' \(choose from (?P<choices>.*)\)$")


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """The options of a parser and of its subcommands' parsers."""
    found = [option for action in parser._actions for option in action.option_strings]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [option for inner in action.choices.values() for option in options_of(inner)]
    return found


def near_option(word: str, known: Iterable[str], dotted: bool = False) -> str:
    """As `near`, of a word of the command line.

    Arguments:
      word: with or without "=VALUE".
      known: the options that there are.
      dotted: whether --config.NAME and --grid.NAME are among them.
    """
    option = word.partition("=")[0]
    if not option.startswith("--"):
        return ""
    head, dot, name = option.partition(".")
    if not dot:
        return near(option, known)
    if not dotted:
        return ""
    from jaxmatch.config import SECTIONS

    sections = {f"--{each}": f"--config.{each}" for each in ("model", *SECTIONS)}
    meant = {f"--{kind}": f"--{kind}" for kind in KINDS} | sections
    close = difflib.get_close_matches(head, meant, n=1, cutoff=0.5)
    return f'did you mean "{meant[close[0]]}.{name}"?' if close else ""


def plain_option(name: str, known: Iterable[str]) -> str:
    """What to give for a setting such as "data.task" to a command that has no config; "" if it has no such option."""
    option = f"--{name.rpartition('.')[2].replace('_', '-')}"
    return f"give {option}" if option in known else ""


def with_choice(message: str) -> str:
    """An error of argparse, with the nearest choice where a word is none of them."""
    if not (found := _CHOICE.search(message)):
        return message
    remedy = near(found["word"], [choice.strip("'\"") for choice in found["choices"].split(", ")])
    return f"{message}; {remedy}" if remedy else message


@contextlib.contextmanager
def of_options(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Adds to the error about an unknown option of a launched file the nearest one, be it the file's or the command's.

    Raises:
      InputError: in place of `UnknownOption`.
    """
    try:
        yield
    except UnknownOption as error:
        known = [*(f"--{name.replace('_', '-')}" for name in error.known), *options_of(parser)]
        remedy = near_option(error.option, known, dotted=True) or error.remedy
        raise InputError(error.problem, path=error.path, remedy=remedy) from None
