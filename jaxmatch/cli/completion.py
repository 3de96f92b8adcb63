"""`--print-completion SHELL`: a script, made by shtab, for completing commands, options, names and files in a shell."""

import argparse
from collections.abc import Iterator, Sequence

from jaxmatch.cli.output import show
from jaxmatch.errors import InputError, NotInstalled

OPTION = "--print-completion"
HELP = f"{OPTION} bash|zsh|tcsh: print a script for your shell"
FOLDERS = ("DIR", "FOLDER", "RUN", "WORKDIR")  # the names in the help for arguments that are folders


def show_script(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Prints the completion script for a shell.

    Arguments:
      parser: the parser of the whole command line.
      words: the words after the option, which are the name of the shell.

    Raises:
      InputError: shtab is not installed, or the words are not the name of a shell that it knows.
    """
    try:
        import shtab
    except ImportError:
        raise NotInstalled(OPTION, "shtab", "completion") from None
    from jaxmatch.sweep.named_files import CONFIGS, SWEEPS, files

    known = shtab.SUPPORTED_SHELLS
    if len(words) != 1 or words[0] not in known:
        raise InputError(f"{OPTION} needs the name of a shell", remedy=f"it is one of {', '.join(known)}")
    configs, sweeps = list(files(CONFIGS)), list(files(SWEEPS))
    preamble = {"bash": "", "zsh": ""}
    for command, action in _arguments(parser):
        names = {"train": configs, "configs": [*configs, *sweeps]}.get(command, sweeps)
        if (command, action.dest) == ("configs", "name") or (
            command in ("sweep", "train", "tune", "timing") and action.dest == "file"
        ):
            function = f"_jaxmatch_{command}_names"
            action.complete = {**shtab.FILE, "bash": function, "zsh": function}
            preamble["bash"] += f'{function}() {{ compgen -W "{" ".join(names)}" -- "$1"; compgen -f -- "$1"; }}\n'
            preamble["zsh"] += f"{function}() {{ compadd {' '.join(names)}; _files; }}\n"
        elif action.metavar in FOLDERS:
            action.complete = shtab.DIRECTORY
        elif action.metavar == "FILE":
            action.complete = shtab.FILE
    show(shtab.complete(parser, words[0], preamble=preamble))


def _arguments(parser: argparse.ArgumentParser, command: str = "") -> Iterator[tuple[str, argparse.Action]]:
    """Yields (subcommand, argument) for all arguments. Nested subcommands such as `data fetch` are included."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _arguments(inner, command or name)
        else:
            yield command, action
