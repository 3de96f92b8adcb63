"""The `jaxmatch` command: finds the subcommand, and turns errors that are the user's to mend into one line."""

import argparse
import errno
import io
import os
import shlex
import sys
from collections.abc import Sequence

from jaxmatch import __version__
from jaxmatch.cli import data, ensemble, evaluate, figure, inspect, occlusion, predict, report, sweep, table, timing, train, tune
from jaxmatch.cli.dotted import take_dotted
from jaxmatch.errors import InputError
from jaxmatch.huge_pages import start_again_with_huge_pages

# What a shell reports for a program that an interrupt or a closed pipe ended.
INTERRUPTED, PIPE_CLOSED, WRONG_INPUT = 130, 141, 2

SUBCOMMANDS = {
    "sweep": sweep,
    "train": train,
    "tune": tune,
    "table": table,
    "report": report,
    "evaluate": evaluate,
    "ensemble": ensemble,
    "timing": timing,
    "predict": predict,
    "inspect": inspect,
    "occlusion": occlusion,
    "figure": figure,
    "data": data,
}

# What JAX's errors that are the user's to mend have in common -> what is said instead.
_OF_THE_DEVICE = {
    "RESOURCE_EXHAUSTED": "the memory of the device does not suffice; free some, or give it less at once",
    "Unable to initialize backend": "JAX finds no device of the kind that is asked for; set JAX_PLATFORMS=cpu, or mend what hinders it",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jaxmatch",
        description="Compact text-matching models, trained as whole sweeps.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"jaxmatch {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, module in SUBCOMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=module.HELP, description=module.__doc__, allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        module.add_arguments(subparser)
        subparser.set_defaults(module=module)
    return parser


def _say(text: str) -> None:
    print(f"jaxmatch: {text}", file=sys.stderr)


def _close_quietly() -> None:
    """Whoever read our output has gone; what Python would still flush at exit must not complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file: then there is nothing that could complain
        pass


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
        rest, dotted = take_dotted(words)
        parser = _parser()
        parsed, parsed.rest = parser.parse_known_args(rest)
        module = parsed.module
        if parsed.rest and not getattr(module, "TAKES_OPTIONS", False):
            parser.error(f"unrecognized arguments: {' '.join(parsed.rest)}")
        if any(dotted.values()) and not getattr(module, "TAKES_OVERRIDES", False):
            kind, names = next((kind, names) for kind, names in dotted.items() if names)
            parser.error(f"{parsed.subcommand} takes no --{kind}.{next(iter(names))}")
        parsed.dotted, parsed.command_line = dotted, shlex.join(["jaxmatch", *words])
        module.run(parsed)
        sys.stdout.flush()
        return 0
    except InputError as error:
        _say(str(error))
        return WRONG_INPUT
    except KeyboardInterrupt:
        _say(getattr(module, "WHEN_INTERRUPTED", "interrupted"))
        return INTERRUPTED
    except BrokenPipeError:
        _close_quietly()
        return PIPE_CLOSED
    except MemoryError:
        _say("the memory of this machine does not suffice; free some, or give it less at once")
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
        place = "" if error.filename is None else f"{error.filename}: "
        try:
            sys.stdout.flush()
        except OSError:  # it is standard output that cannot be written
            _close_quietly()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        _say(f"{place}{error.strerror or error}{'; make room, and give the same command again' * full}")
        return WRONG_INPUT


def command() -> int:
    """`jaxmatch` as a process of its own."""
    start_again_with_huge_pages()
    # As all files are, and not as the locale says: its characters may lack those of a table, after hours of training. From
    # Python 3.15 on that is the rule (https://peps.python.org/pep-0686/).
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    return main()
