"""`--print-completion SHELL`: a script that lets a shell complete commands and options, made by shtab."""

import argparse
from collections.abc import Sequence

from jaxmatch.cli.output import show
from jaxmatch.errors import InputError

OPTION = "--print-completion"
HELP = f"{OPTION} bash|zsh|tcsh: print a script for your shell"


def show_script(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Prints the script.

    Arguments:
      parser: of the whole command line.
      words: after the option: the shell.

    Raises:
      InputError: shtab is not installed, or it does not know the shell.
    """
    try:
        import shtab
    except ImportError:
        raise InputError("shtab is not installed", remedy="pip install 'jaxmatch[completion]'") from None
    known = shtab.SUPPORTED_SHELLS
    if len(words) != 1 or words[0] not in known:
        raise InputError(f"{OPTION} needs the name of a shell", remedy=f"it is one of {', '.join(known)}")
    show(shtab.complete(parser, words[0]))
