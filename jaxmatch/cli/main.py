"""The `jaxmatch` command: runs a subcommand, and turns an error that the user can fix into one line."""

import argparse
import contextlib
import importlib
import inspect
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from jaxmatch import __version__
from jaxmatch.cli.common import OUTPUT
from jaxmatch.devices import is_out_of_memory, restart_with_huge_pages
from jaxmatch.errors import InputError, printable
from jaxmatch.files import add_path_to_errors

# The statuses that a shell reports for programs that SIGINT, SIGTERM or a closed pipe ended, and that of wrong input.
INTERRUPTED, TERMINATED, PIPE_CLOSED, WRONG_INPUT = 130, 143, 141, 2
IMPORT, DOTTED = "--import", ("config", "grid", "space")


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM, which ends a command as an interrupt does: training writes a checkpoint first."""


class Subcommand(NamedTuple):
    """A subcommand: a function of its name, whose docstring is its help, and `add_NAME_arguments(parser)`, if any."""

    file: str  # the module here that has both functions
    line: str  # the help, in one line
    dotted: tuple[str, ...] = ()  # the kinds of dotted options that it takes, such as --config.NAME=VALUE
    uses_jax: bool = True  # whether it computes something that huge pages would make faster

    def function(self, name: str) -> Callable[..., Any]:
        return getattr(importlib.import_module(f"jaxmatch.cli.{self.file}"), name, None)


SUBCOMMANDS = {
    "sweep": Subcommand("train", "train a grid of runs and print its table", ("config", "grid")),
    "train": Subcommand("train", "train one config", ("config", "grid")),
    "tune": Subcommand("train", "choose a setting on dev, then train it with many seeds", ("config", "grid", "space")),
    "configs": Subcommand("results", "list the configs and sweeps that there are, or copy one", uses_jax=False),
    "table": Subcommand("results", "print the table of finished runs", uses_jax=False),
    "report": Subcommand("results", "write an HTML page about a sweep", uses_jax=False),
    "evaluate": Subcommand("models", "score a run on dev, test or a file"),
    "calibrate": Subcommand("models", "choose a run's threshold and the temperature of its probabilities on dev"),
    "ensemble": Subcommand("analyses", "score the seeds of each setting together"),
    "timing": Subcommand("results", "measure how fast models predict on the CPU", ("config",)),
    "predict": Subcommand("models", "predict labels and probabilities of new pairs"),
    "rank": Subcommand("models", "order texts by how well they match a query"),
    "search": Subcommand("models", "find the texts that match a query, among many"),
    "serve": Subcommand("models", "answer requests for predictions over HTTP"),
    "export": Subcommand("models", "write a run as StableHLO, ONNX or safetensors, for other programs"),
    "inspect": Subcommand("analyses", "show the attention weights of a pair"),
    "occlusion": Subcommand("analyses", "measure the accuracy of a trained RE2 without a feature"),
    "figure": Subcommand("results", "draw curves of a sweep, or a figure again from its values", uses_jax=False),
    "data": Subcommand("data", "download public data sets, and check data before training", ("config",)),
    "devices": Subcommand("data", "list what JAX can compute on"),
}


class _Parser(argparse.ArgumentParser):
    """A parser that raises an `InputError` about a wrong word."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, remedy=f"see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    parser = _Parser(
        prog="jaxmatch",
        allow_abbrev=False,
        description="Compact text-matching models, trained as whole sweeps.",
        epilog=f"{IMPORT} FILE_OR_MODULE, with any command: load models, scores, data sets or hyperparameters of your "
        "own first.",
    )
    parser.add_argument("--version", action="version", version=f"jaxmatch {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, subcommand in SUBCOMMANDS.items():
        subparser = subparsers.add_parser(
            name,
            help=subcommand.line,
            allow_abbrev=False,
            description=inspect.getdoc(subcommand.function(name)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if add_arguments := subcommand.function(f"add_{name}_arguments"):
            add_arguments(subparser)
    return parser


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the words after `jaxmatch`.

    Returns:
      The arguments of the subcommand, and besides: `imports`, the values of --import; `dotted`, {"config": {"x.y":
      "value"}, "grid": {...}, "space": {...}}; `options`, name -> value for the options that only the launched file
      knows; and `command_line`.
    """
    first = _Parser(prog="jaxmatch", add_help=False, allow_abbrev=False)
    first.add_argument(IMPORT, dest="imports", action="append", default=[])
    parsed, rest = first.parse_known_args(words)
    parsed, rest = build_parser().parse_known_args(rest, parsed)
    parsed.command_line, parsed.options = shlex.join(["jaxmatch", *words]), {}
    parsed.dotted = {kind: {} for kind in DOTTED}
    left, see = iter(rest), f"see jaxmatch {parsed.subcommand} --help"
    for word in left:
        option, equals, value = word.partition("=")
        kind, dot, name = option.removeprefix("--").partition(".")
        if not option.startswith("--") or not (
            all(name.split(".")) and kind in SUBCOMMANDS[parsed.subcommand].dotted if dot else "file" in parsed
        ):
            raise InputError(f"{parsed.subcommand} takes no {option}", remedy=see)
        value = value if equals else next(left, "--")
        if not equals and value.startswith("--"):
            raise InputError(f"{option} has no value", remedy=f"write it like {option}=VALUE, or {see}")
        if dot:
            parsed.dotted[kind][name] = value
        else:
            parsed.options[kind.replace("-", "_")] = value
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the subcommand of some words, by default those of the process, and returns the exit status.

    It is 0; 2 for input that cannot be used, and without a word, which prints the help on standard error; 130 after an
    interrupt; 143 after SIGTERM; 141 if the output was closed.
    """
    words, parsed = list(sys.argv[1:] if arguments is None else arguments), None
    try:
        if sys.stdout is None:
            raise InputError("standard output is closed", remedy="give it a file or a pipe; /dev/null will do")
        if not words:
            build_parser().print_help(sys.stderr)
            return WRONG_INPUT
        with contextlib.suppress(SystemExit):  # after --help and --version
            parsed = parse(words)
        if parsed is not None:
            from jaxmatch import extend  # not for --help, which needs fewer imports

            extend.load(parsed.imports)
            SUBCOMMANDS[parsed.subcommand].function(parsed.subcommand)(parsed)
        with add_path_to_errors(OUTPUT):
            sys.stdout.flush()
        return 0
    except InputError as error:
        return _fail(str(error))
    except KeyboardInterrupt as interrupt:
        resumes = parsed is not None and SUBCOMMANDS[parsed.subcommand].file == "train"
        what, status = ("terminated", TERMINATED) if isinstance(interrupt, Terminated) else ("interrupted", INTERRUPTED)
        return _fail(what + "; run the same command to resume" * resumes, status)
    except BrokenPipeError:
        return _fail("", PIPE_CLOSED)
    except (MemoryError, RuntimeError, OSError) as error:  # JAX's errors are RuntimeErrors
        if not (text := _explained(error)):
            raise
        return _fail(text)


def _explained(error: Exception) -> str:
    """Describes an error of the system in one line. Returns "" for another error, which is one of the program."""
    if isinstance(error, MemoryError):
        return "out of memory; free some, or use a smaller batch"
    if isinstance(error, OSError):
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{place}{error.strerror or error}" if error.errno is not None else ""
    if is_out_of_memory(error):
        return "out of device memory; free some, shorten long texts, or use a smaller batch"
    if "Unable to initialize backend" in str(error):
        return "JAX finds no device of the requested kind; set JAX_PLATFORMS=cpu, or fix what keeps JAX from using it"
    return ""


def _fail(text: str, status: int = WRONG_INPUT) -> int:
    """Prints why a command failed, and returns its status. Closes an output that cannot be written."""
    if text:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error is full or closed
            sys.stderr.write(f"jaxmatch: {printable(text)}\n")
            sys.stderr.flush()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        # Otherwise Python would report one more error at exit. If it is not a real file, Python reports none.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def command() -> int:
    """Runs `jaxmatch` as a process of its own, and returns the exit status."""
    if sys.stderr is None:  # closed, as by 2>&-
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if words and (words[0] not in SUBCOMMANDS or SUBCOMMANDS[words[0]].uses_jax):
        restart_with_huge_pages()
    raise_lost_interrupts()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    # As in all files. The locale's encoding may lack a character of a table, which would be an error after hours.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    status = main()
    exit_if_needed(status)
    return status


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def exit_if_needed(status: int) -> None:
    """Exits directly if threads of JAX may still compute after an interrupt, or JAX would wait for other processes."""
    jax = sys.modules.get("jax")
    if jax is None or not (status in (INTERRUPTED, TERMINATED) or jax.distributed.is_initialized()):
        return
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def raise_lost_interrupts() -> None:
    """Raises an interrupt again that arrives in a callback of the garbage collector, where Python only reports it."""
    report, main_thread = sys.unraisablehook, threading.main_thread().ident

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            threading.Timer(0.01, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
        else:
            report(unraisable)

    sys.unraisablehook = hook


def magic(line: str) -> None:
    """Runs `jaxmatch` with the words after `%jaxmatch` in the notebook's own process, which keeps compiled programs."""
    from IPython.core.error import UsageError

    if status := main(shlex.split(line)):
        raise UsageError(f"jaxmatch ended with status {status}")
