"""The `jaxmatch` command: finds the subcommand, and turns errors that the user can fix into one line."""

import argparse
import contextlib
import errno
import importlib
import io
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from types import ModuleType
from typing import IO, Any

from jaxmatch import __version__
from jaxmatch.cli import completion, interrupts, suggestions
from jaxmatch.cli.distributed import leave
from jaxmatch.cli.dotted import take_dotted
from jaxmatch.cli.huge_pages import start_again_with_huge_pages
from jaxmatch.cli.imports import HELP as HELP_OF_IMPORT
from jaxmatch.cli.imports import take_imports
from jaxmatch.cli.interrupts import INTERRUPTED
from jaxmatch.cli.output import OUTPUT
from jaxmatch.cli.plugin_errors import shorten_plugin_errors
from jaxmatch.errors import InputError, nearest
from jaxmatch.files import naming
from jaxmatch.printable import printable, shown

# What a shell reports for a program that a closed pipe ended; the status of wrong input.
PIPE_CLOSED, WRONG_INPUT = 141, 2

# Subcommand -> what it does, in a line. Its code is the module of that name here, imported when it is used.
SUBCOMMANDS = {
    "sweep": "train a grid of runs and print its table",
    "train": "train one config",
    "tune": "choose a setting on dev, then train it with many seeds",
    "configs": "list the configs and sweeps that there are, or copy one",
    "table": "print the table of finished runs",
    "report": "write an HTML page about a sweep",
    "evaluate": "score a run on dev, test or a file",
    "calibrate": "choose a run's threshold and the temperature of its probabilities on dev",
    "ensemble": "score the seeds of each setting together",
    "timing": "measure how fast models predict on the CPU",
    "predict": "predict labels and probabilities of new pairs",
    "rank": "order texts by how well they match a query",
    "search": "find the texts that match a query, among many",
    "export": "write a run as StableHLO, ONNX or safetensors, for other programs",
    "inspect": "show the attention weights of a pair",
    "occlusion": "measure the accuracy of a trained RE2 without a feature",
    "figure": "draw curves of a sweep, or a figure again from its values",
    "data": "download public data sets, and check data before training",
    "devices": "list what JAX can compute on, and try it",
}

# These compute nothing that huge pages would make faster.
WITHOUT_JAX = {"table", "report", "figure", "configs"}

# What a write found no room in -> what to do.
_NO_ROOM = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room, or have the quota raised",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
}

# A part of the JAX errors that the user can fix -> the message instead.
_OF_THE_DEVICE = {
    "RESOURCE_EXHAUSTED": "out of device memory; free some, or use a smaller batch",
    "Unable to initialize backend": "JAX finds no device of the requested kind; set JAX_PLATFORMS=cpu, or fix what "
    "keeps JAX from using it",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors escape control characters of the words it names, and whose help fails where it cannot be
    written.
    """

    def error(self, message: str) -> Any:
        message = suggestions.with_choice(message)
        super().error(printable(" ".join(message.split())))

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:
        if message and file is not None and file is sys.stdout:  # argparse would say nothing where it cannot write
            with naming(OUTPUT):
                file.write(message)
                file.flush()
        else:
            super()._print_message(message, file)


def module_of(subcommand: str) -> ModuleType:
    """The module of a subcommand: `add_arguments(parser)`, `run(arguments)`, and its docstring is the help."""
    return importlib.import_module(f"jaxmatch.cli.{subcommand}")


def build_parser(subcommands: Collection[str] = tuple(SUBCOMMANDS)) -> argparse.ArgumentParser:
    """The parser of the whole command line; dotted options (`dotted.py`) are taken out before it parses.

    Arguments:
      subcommands: those whose arguments it can parse; the others are only named in its help.
    """
    parser = _Parser(
        prog="jaxmatch",
        description="Compact text-matching models, trained as whole sweeps.",
        epilog=f"{HELP_OF_IMPORT}. {completion.HELP}.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"jaxmatch {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, line in SUBCOMMANDS.items():
        module = module_of(name) if name in subcommands else None
        subparser = subparsers.add_parser(
            name,
            help=line,
            description=module and module.__doc__,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if module:
            module.add_arguments(subparser)
            subparser.set_defaults(module=module, parser=subparser)
    return parser


def _chosen(words: Sequence[str]) -> list[str]:
    """The subcommand among the words, if any; it need not exist."""
    return [word for word in words if not word.startswith("-")][:1]


def _say(text: str) -> None:
    with contextlib.suppress(
        OSError, ValueError, AttributeError
    ):  # where standard error is full or closed, nothing can be printed
        sys.stderr.write(f"jaxmatch: {printable(text)}\n")
        sys.stderr.flush()


def _close_quietly() -> None:
    """Nothing can be written to standard output any more; what Python would still flush at exit must not complain."""
    with contextlib.suppress(
        OSError, ValueError, AttributeError
    ):  # not a real file: then there is nothing that could complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush_quietly() -> None:
    """Flushes standard output; an error closes it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _close_quietly()


def _of_the_system(error: OSError) -> str:
    """An error of the operating system in one line."""
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    remedy = _NO_ROOM.get(error.errno)
    return f"{place}{error.strerror or error}" + (f"; {remedy}, and run the same command again" if remedy else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand.

    Arguments:
      arguments: the words after `jaxmatch`; None takes those of the process.

    Returns:
      The exit status: 0, 2 for input that cannot be used, 130 when interrupted, 141 when the output was closed.
    """
    module = None
    try:
        words = sys.argv[1:] if arguments is None else arguments
        rest, imports = take_imports(words)
        rest, dotted = take_dotted(rest)
        if rest[:1] == [completion.OPTION]:
            completion.show_script(build_parser(), rest[1:])
            return 0
        chosen = _chosen(rest)
        parser = build_parser(chosen)
        if chosen and chosen[0] not in SUBCOMMANDS:
            parser.error(f"there is no command {shown(chosen[0])}; {nearest(chosen[0], SUBCOMMANDS)}")
        parsed, parsed.rest = parser.parse_known_args(rest)
        module = parsed.module
        if parsed.rest and not getattr(module, "TAKES_OPTIONS", False):
            known, dotted_too = suggestions.options_of(parsed.parser), getattr(module, "TAKES_OVERRIDES", False)
            remedy = suggestions.near_option(parsed.rest[0], known, dotted_too)
            parser.error(f"unrecognized arguments: {' '.join(parsed.rest)}{remedy and '; '}{remedy}")
        for kind, names in dotted.items():
            takes = "TAKES_SPACE" if kind == "space" else "TAKES_OVERRIDES"
            if names and not getattr(module, takes, False):
                name = next(iter(names))
                remedy = suggestions.plain_option(name, suggestions.options_of(parsed.parser))
                parser.error(f"{parsed.subcommand} takes no --{kind}.{name}{remedy and '; '}{remedy}")
        parsed.dotted, parsed.imports, parsed.command_line = dotted, imports, shlex.join(["jaxmatch", *words])
        if sys.stdout is None and not getattr(module, "CHECKS_OUTPUT", False):
            raise InputError("standard output is closed", remedy="give it a file or a pipe; /dev/null will do")
        from jaxmatch import extend  # imports more than help needs

        extend.load_installed()
        extend.load(imports)
        module.run(parsed)
        if sys.stdout is not None:
            with naming(OUTPUT):
                sys.stdout.flush()
        return 0
    except InputError as error:
        _say(str(error))
        return WRONG_INPUT
    except KeyboardInterrupt as interrupt:  # Python's own says nothing
        _say(str(interrupt) or getattr(module, "WHEN_INTERRUPTED", "interrupted"))
        return INTERRUPTED
    except BrokenPipeError:
        _close_quietly()
        return PIPE_CLOSED
    except MemoryError:
        _say("out of memory; free some, or use a smaller batch")
        return WRONG_INPUT
    except RuntimeError as error:  # that of JAX is one, and JAX need not have been loaded
        known = [said for sign, said in _OF_THE_DEVICE.items() if sign in str(error)]
        if not known:
            raise
        _say(known[0])
        return WRONG_INPUT
    except OSError as error:
        if error.errno is None:  # not of the system
            raise
        _say(_of_the_system(error))
        return WRONG_INPUT
    finally:
        _flush_quietly()  # of a command that failed, too: else Python itself complains at exit


def command() -> int:
    """`jaxmatch` as a process of its own."""
    interrupts.end_at_once()
    if not WITHOUT_JAX.issuperset(_chosen(sys.argv[1:])):
        with interrupts.blocked():  # until it is here again, for the start of Python would end in a traceback
            start_again_with_huge_pages()
    interrupts.raise_lost_interrupts()
    shorten_plugin_errors()
    # As all files are, and not as the locale says: its characters may lack those of a table, after hours of training.
    # From Python 3.15 on that is the rule (https://peps.python.org/pep-0686/).
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        interrupts.hold_back_in_imports()
        status = main()
    except KeyboardInterrupt:  # just before `main` could catch it, or after
        _say("interrupted")
        status = INTERRUPTED
    leave(status, interrupted=status == INTERRUPTED)
    return status
