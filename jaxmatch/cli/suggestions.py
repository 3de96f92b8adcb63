"""Suggestions for a mistyped command, option or choice: the nearest known one."""

import argparse
import contextlib
import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator

from jaxmatch.cli.dotted import KINDS
from jaxmatch.errors import InputError, UnknownOption, did_you_mean

# The message of argparse about a word that is not one of the choices. Python 3.12 removed their quotation marks.
_CHOICE = re.compile(r"invalid choice: '(?P<word>.*)' \(choose from (?P<choices>.*)\)$")


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the options of a parser and of its subcommands' parsers."""
    found = [option for action in parser._actions for option in action.option_strings]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [option for inner in action.choices.values() for option in options_of(inner)]
    return found


def near_option(word: str, known: Iterable[str], dotted: bool = False) -> str:
    """Returns `did you mean "…"?` with the known option that is nearest to a word of the command line, or "".

    Arguments:
      word: the option, with or without "=VALUE".
      known: the known options.
      dotted: whether dotted options such as --config.NAME and --grid.NAME are known, too.
    """
    option = word.partition("=")[0]
    if not option.startswith("--"):
        return ""
    head, dot, name = option.partition(".")
    if not dot:
        return (_setting_of(option) if dotted else "") or did_you_mean(option, known)
    if not dotted:
        return ""
    from jaxmatch.config.settings import SECTIONS

    sections = {f"--{each}": f"--config.{each}" for each in ("model", *SECTIONS)}
    meant = {f"--{kind}": f"--{kind}" for kind in KINDS} | sections
    close = difflib.get_close_matches(head, meant, n=1, cutoff=0.5)
    return f'did you mean "{meant[close[0]]}.{name}"?' if close else ""


def _setting_of(option: str) -> str:
    """Returns the remedy that names the setting whose last part an option is, such as --hidden-size, or ""."""
    from jaxmatch.config.models import MODELS
    from jaxmatch.config.settings import SECTIONS  # imported only for an error

    name = option.removeprefix("--").replace("-", "_")
    for section, settings in {"model": MODELS["re2"], **SECTIONS}.items():
        if name in {field.name for field in dataclasses.fields(settings)}:
            return f'did you mean "--config.{section}.{name}"?'
    return ""


def plain_option(name: str, known: Iterable[str]) -> str:
    """Returns the remedy for a setting such as "data.task" given to a command without a config: its option, or ""."""
    option = f"--{name.rpartition('.')[2].replace('_', '-')}"
    return f"give {option}" if option in known else ""


def with_choice(message: str) -> str:
    """Adds the nearest choice to an error message of argparse about a word that is not one of the choices."""
    if not (found := _CHOICE.search(message)):
        return message
    remedy = did_you_mean(found["word"], [choice.strip("'\"") for choice in found["choices"].split(", ")])
    return f"{message}; {remedy}" if remedy else message


@contextlib.contextmanager
def suggesting_options(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Adds the nearest option, of the launched file or of the command, to an error about an unknown option.

    Raises:
      InputError: an option is unknown. This error replaces `UnknownOption`.
    """
    try:
        yield
    except UnknownOption as error:
        known = [*(f"--{name.replace('_', '-')}" for name in error.known), *options_of(parser)]
        remedy = near_option(error.option, known, dotted=True) or error.remedy
        raise InputError(error.problem, path=error.path, remedy=remedy) from None
