"""The `jaxmatch` command: finds the subcommand, and turns errors that the user can fix into one line."""

import argparse
import contextlib
import dataclasses
import errno
import importlib
import inspect
import io
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from types import ModuleType
from typing import IO, Any

from jaxmatch import __version__
from jaxmatch.cli import interrupts
from jaxmatch.cli.common import (
    IMPORT_HELP,
    OUTPUT,
    near_option,
    options_of,
    plain_option,
    take_dotted,
    take_imports,
    with_choice,
)
from jaxmatch.cli.interrupts import INTERRUPTED
from jaxmatch.devices import restart_with_huge_pages
from jaxmatch.errors import InputError, nearest, printable, shown
from jaxmatch.files import add_path_to_errors

# The status that a shell reports for a program that a closed pipe ended, and the status for wrong input.
PIPE_CLOSED, WRONG_INPUT = 141, 2


@dataclasses.dataclass(frozen=True)
class Subcommand:
    """A subcommand: a function of its name, whose docstring is its help, and `add_NAME_arguments(parser)`.

    Attributes:
      file: the module here that has both functions. It is imported when the subcommand is used.
      line: the help, in one line.
      dotted: the kinds of dotted options that it takes (`common.DOTTED`).
      takes_options: whether it takes options that argparse does not know.
      checks_output: whether it checks standard output itself.
      uses_jax: whether it computes something that huge pages would make faster.
      interrupted: the message after an interrupt.
    """

    file: str
    line: str
    dotted: tuple[str, ...] = ()
    takes_options: bool = False
    checks_output: bool = False
    uses_jax: bool = True
    interrupted: str = "interrupted"

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"jaxmatch.cli.{self.file}")


RESUME = "interrupted; run the same command to resume"
SUBCOMMANDS = {
    "sweep": Subcommand(
        "train",
        "train a grid of runs and print its table",
        dotted=("config", "grid"),
        takes_options=True,
        interrupted=RESUME,
    ),
    "train": Subcommand("train", "train one config", dotted=("config", "grid"), takes_options=True, interrupted=RESUME),
    "tune": Subcommand(
        "train",
        "choose a setting on dev, then train it with many seeds",
        dotted=("config", "grid", "space"),
        takes_options=True,
        interrupted=RESUME,
    ),
    "configs": Subcommand("results", "list the configs and sweeps that there are, or copy one", uses_jax=False),
    "table": Subcommand("results", "print the table of finished runs", uses_jax=False),
    "report": Subcommand("results", "write an HTML page about a sweep", uses_jax=False),
    "evaluate": Subcommand("models", "score a run on dev, test or a file"),
    "calibrate": Subcommand("models", "choose a run's threshold and the temperature of its probabilities on dev"),
    "ensemble": Subcommand("analyses", "score the seeds of each setting together"),
    "timing": Subcommand(
        "results", "measure how fast models predict on the CPU", dotted=("config", "grid"), takes_options=True
    ),
    "predict": Subcommand(
        "models",
        "predict labels and probabilities of new pairs",
        checks_output=True,
        interrupted="interrupted; an output file was left as it was",
    ),
    "rank": Subcommand("models", "order texts by how well they match a query", checks_output=True),
    "search": Subcommand("models", "find the texts that match a query, among many", checks_output=True),
    "export": Subcommand(
        "models",
        "write a run as StableHLO, ONNX or safetensors, for other programs",
        interrupted="interrupted; nothing was written",
    ),
    "inspect": Subcommand("analyses", "show the attention weights of a pair"),
    "occlusion": Subcommand("analyses", "measure the accuracy of a trained RE2 without a feature"),
    "figure": Subcommand("results", "draw curves of a sweep, or a figure again from its values", uses_jax=False),
    "data": Subcommand("data", "download public data sets, and check data before training"),
    "devices": Subcommand("data", "list what JAX can compute on"),
}

# The errno of a failed write -> its remedy.
_REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room, or have the quota raised",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
    errno.EROFS: "make it writable (or move a cache: --config.execution.cache_directory, XDG_CACHE_HOME)",
}

_OUT_OF_MEMORY = "out of device memory; free some, shorten long texts, or use a smaller batch"
_NO_DEVICE = "JAX finds no device of the requested kind; set JAX_PLATFORMS=cpu, or fix what keeps JAX from using it"


class _Parser(argparse.ArgumentParser):
    """A parser whose error messages escape control characters, and whose help raises an error if it cannot be
    written.
    """

    def error(self, message: str) -> Any:
        message = printable(" ".join(with_choice(message).split()))
        self.exit(2, f"{self.prog}: error: {message}\n")  # one line, without the usage

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:
        if message and file is not None and file is sys.stdout:  # argparse would ignore a failed write
            with add_path_to_errors(OUTPUT):
                file.write(message)
                file.flush()
        else:
            super()._print_message(message, file)


def build_parser(subcommands: Collection[str] = tuple(SUBCOMMANDS)) -> argparse.ArgumentParser:
    """Builds the parser of the whole command line. Dotted options (`take_dotted`) are taken out before it parses.

    Arguments:
      subcommands: the subcommands whose arguments it can parse; the others are only named in its help.
    """
    parser = _Parser(
        prog="jaxmatch",
        description="Compact text-matching models, trained as whole sweeps.",
        epilog=f"{IMPORT_HELP}.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"jaxmatch {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, subcommand in SUBCOMMANDS.items():
        module = subcommand.module if name in subcommands else None
        subparser = subparsers.add_parser(
            name,
            help=subcommand.line,
            description=module and inspect.getdoc(getattr(module, name)),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if module:
            getattr(module, f"add_{name}_arguments")(subparser)
            subparser.set_defaults(parser=subparser)
    return parser


def _chosen(words: Sequence[str]) -> list[str]:
    """Returns the first word that is not an option, as a list of at most one. It need not be a known subcommand."""
    return [word for word in words if not word.startswith("-")][:1]


def _say(text: str) -> None:
    # If standard error is full or closed, nothing can be printed.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"jaxmatch: {printable(text)}\n")
        sys.stderr.flush()


def _close_quietly() -> None:
    """Closes standard output after a failed write, so that Python does not report another error when it flushes it at
    exit.
    """
    # If standard output is not a real file, Python will not report an error.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush_quietly() -> None:
    """Flushes standard output. If that fails, closes it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _close_quietly()


def _os_error_text(error: OSError) -> str:
    """Describes an error of the operating system in one line."""
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    remedy = _REMEDIES.get(error.errno)
    return f"{place}{error.strerror or error}" + (f"; {remedy}, and run the same command again" if remedy else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand.

    Arguments:
      arguments: the words after `jaxmatch`; None: the arguments of the process.

    Returns:
      The exit status: 0; 2 for input that cannot be used; 130 after an interrupt; 141 if the output was closed.
    """
    interrupted = "interrupted"
    try:
        words = sys.argv[1:] if arguments is None else arguments
        rest, imports = take_imports(words)
        rest, dotted = take_dotted(rest)
        chosen = _chosen(rest)
        parser = build_parser(chosen)
        if chosen and chosen[0] not in SUBCOMMANDS:
            parser.error(f"there is no command {shown(chosen[0])}; {nearest(chosen[0], SUBCOMMANDS)}")
        parsed, parsed.rest = parser.parse_known_args(rest)
        subcommand = SUBCOMMANDS[parsed.subcommand]
        interrupted = subcommand.interrupted
        if parsed.rest and not subcommand.takes_options:
            remedy = near_option(parsed.rest[0], options_of(parsed.parser), bool(subcommand.dotted))
            parser.error(f"unrecognized arguments: {' '.join(parsed.rest)}{remedy and '; '}{remedy}")
        for kind, names in dotted.items():
            if names and kind not in subcommand.dotted:
                name = next(iter(names))
                remedy = plain_option(name, options_of(parsed.parser))
                parser.error(f"{parsed.subcommand} takes no --{kind}.{name}{remedy and '; '}{remedy}")
        parsed.dotted, parsed.imports, parsed.command_line = dotted, imports, shlex.join(["jaxmatch", *words])
        if sys.stdout is None and not subcommand.checks_output:
            raise InputError("standard output is closed", remedy="give it a file or a pipe; /dev/null will do")
        from jaxmatch import extend  # not for --help, which needs fewer imports

        extend.load_installed()
        extend.load(imports)
        getattr(subcommand.module, parsed.subcommand)(parsed)
        if sys.stdout is not None:
            with add_path_to_errors(OUTPUT):
                sys.stdout.flush()
        return 0
    except InputError as error:
        _say(str(error))
        return WRONG_INPUT
    except KeyboardInterrupt as interrupt:  # an interrupt that Python raises has no text
        _say(str(interrupt) or interrupted)
        return INTERRUPTED
    except BrokenPipeError:
        _close_quietly()
        return PIPE_CLOSED
    except MemoryError:
        _say("out of memory; free some, or use a smaller batch")
        return WRONG_INPUT
    except RuntimeError as error:  # JAX's errors are subclasses, and JAX may not have been imported
        from jaxmatch.devices import is_out_of_memory

        if not is_out_of_memory(error) and "Unable to initialize backend" not in str(error):
            raise
        _say(_OUT_OF_MEMORY if is_out_of_memory(error) else _NO_DEVICE)
        return WRONG_INPUT
    except OSError as error:
        if error.errno is None:  # not an error of the operating system
            raise
        _say(_os_error_text(error))
        return WRONG_INPUT
    finally:
        _flush_quietly()  # also after a failure; otherwise Python would report an error at exit


def exit_if_needed(status: int, interrupted: bool) -> None:
    """Exits directly if JAX may still compute after an interrupt, or if other processes wait for this one. Otherwise it
    returns.

    An interrupt does not stop threads in which JAX compiles or computes, and Python's own exit can crash while they
    run. JAX would also wait for processes that wait for this one.
    """
    jax = sys.modules.get("jax")
    if jax is None or not (interrupted or jax.distributed.is_initialized()):
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(status)


def command() -> int:
    """Runs `jaxmatch` as a process of its own, and returns the exit status."""
    interrupts.exit_on_interrupt()
    if sys.stderr is None:  # closed, as by 2>&-
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if any(name not in SUBCOMMANDS or SUBCOMMANDS[name].uses_jax for name in _chosen(sys.argv[1:])):
        with interrupts.blocked():  # an interrupt during the start of Python would print a traceback
            restart_with_huge_pages()
    interrupts.raise_lost_interrupts()
    # UTF-8, as in all files, instead of the locale's encoding, which may lack a character of a table. The error would
    # come after hours of training. UTF-8 is the default from Python 3.15 on (https://peps.python.org/pep-0686/).
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        interrupts.defer_in_imports()
        status = main()
    except KeyboardInterrupt:  # it arrived just before `main` could catch it, or afterwards
        _say("interrupted")
        status = INTERRUPTED
    exit_if_needed(status, interrupted=status == INTERRUPTED)
    return status


def register_magic(shell: Any) -> None:
    """Adds `%jaxmatch` to an IPython shell."""
    shell.register_magic_function(magic, magic_kind="line", magic_name="jaxmatch")


def magic(line: str) -> None:
    """Runs `jaxmatch` with the words after `%jaxmatch`, which are split as in a shell, in the notebook's own process.

        %load_ext jaxmatch
        %jaxmatch sweep sweeps/quickstart.py --workdir runs/quickstart

    A process of its own would start and compile everything again for each command, and would find the accelerator's
    memory taken by the notebook. Progress is printed as lines, and Stop interrupts as Ctrl-C does in a shell.

    Raises:
      UsageError: the line cannot be split, or the command failed and has printed why. IPython prints the error as one
        line and runs no further cell.
    """
    from IPython.core.error import UsageError  # the caller has IPython; no other code needs it

    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(printable(f"jaxmatch: {error}: {line}")) from None
    try:
        status = main(words)
    except SystemExit as end:  # argparse exits this way, also after --help
        status = end.code
    if status:
        raise UsageError(f"jaxmatch ended with status {status}")
