"""What commands share: output, options, suggestions, and the files, folders and runs that a command line names."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from jaxmatch.errors import (
    FILE,
    FOLDER,
    WAIT_OR_RESUME,
    InputError,
    UnknownOption,
    count_text,
    did_you_mean,
    kind,
    printable,
)
from jaxmatch.files import add_path_to_errors, open_atomically, remove_abandoned

STANDARD_INPUT, OUTPUT = "standard input", "standard output"  # their names in error messages


def show(text: object, end: str = "\n") -> None:
    """Prints lines on standard output. Control characters in labels, texts or file names are escaped.

    Raises:
      OSError: the lines cannot be written. The error names standard output.
    """
    with add_path_to_errors(OUTPUT):
        print(printable(str(text), keep="\n"), end=end)


def note(text: str) -> None:
    """Prints a line on standard error, unless it is closed. Control characters are escaped."""
    if sys.stderr is not None:  # `print` would take standard output instead
        print(printable(text), file=sys.stderr)


class _Encoded:
    """A binary file that writes to a text stream, for a notebook, whose standard output has no binary buffer."""

    def __init__(self, text: TextIO):
        self._text = text

    def write(self, content: bytes) -> int:
        self._text.write(content.decode())
        return len(content)

    def flush(self) -> None:
        self._text.flush()


class _Output:
    """A binary file whose errors name standard output."""

    def __init__(self, file: BinaryIO | _Encoded):
        self._file = file

    def write(self, content: bytes) -> int:
        with add_path_to_errors(OUTPUT):
            return self._file.write(content)

    def flush(self) -> None:
        with add_path_to_errors(OUTPUT):
            self._file.flush()


@contextlib.contextmanager
def open_whole(target: str) -> Iterator[BinaryIO]:
    """Yields a binary file to write, as `jaxmatch.files.open_atomically` does. `-` is standard output, which is written
    at once.

    Unfinished files that an earlier command left for the same target are removed.
    """
    if target == "-":
        if sys.stdout is None:
            raise InputError("standard output is closed", remedy="give --output a file")
        yield _Output(getattr(sys.stdout, "buffer", None) or _Encoded(sys.stdout))
        return
    path = Path(os.path.realpath(target))
    remove_abandoned(path.parent, path.name)
    with open_atomically(target) as file:
        yield file


# Options whose names come from a config: kind -> an example.
DOTTED = {
    "config": "--config.model.blocks=3",
    "grid": "--grid.model.blocks=1,2,3",
    "space": "--space.optimizer.learning_rate=log:1e-4:1e-2",
}


def take_dotted(arguments: Sequence[str]) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Takes the dotted options out of a command line.

    `--config.x.y=value` and `--config.x.y value` mean the same. If a name is given twice, the last value wins. Words
    after `--` are not taken.

    Returns:
      The words that are left, and {"config": {"x.y": "value"}, "grid": {...}, "space": {...}}.

    Raises:
      InputError: an option has no name or no value.
    """
    rest: list[str] = []
    taken: dict[str, dict[str, str]] = {kind: {} for kind in DOTTED}
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
            break
        kind = next((kind for kind in DOTTED if word.startswith(f"--{kind}.")), None)
        if kind is None:
            rest.append(word)
            continue
        option, equals, value = word.partition("=")
        name = option.removeprefix(f"--{kind}.")
        if not equals:
            value = next(words, None)
            value = None if value is not None and value.startswith("--") else value
        if not all(name.split(".")) or value is None:
            raise InputError(
                f"{option} has no {'name' if value is not None else 'value'}", remedy=f"write it like {DOTTED[kind]}"
            )
        taken[kind][name] = value
    return rest, taken


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
    meant = {f"--{kind}": f"--{kind}" for kind in DOTTED} | sections
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


IMPORT = "--import"
IMPORT_HELP = (
    f"{IMPORT} FILE_OR_MODULE, with any command: load models, scores, data sets or hyperparameters of your own first"
)


def take_imports(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Takes all `--import` options out of a command line. Words after `--` are not taken.

    Returns:
      The words that are left, and the files and modules to import.

    Raises:
      InputError: an option has no value, or names a Python file that does not exist.
    """
    rest: list[str] = []
    names: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            rest += [word, *left]
        elif word == IMPORT or word.startswith(f"{IMPORT}="):
            name = word.partition("=")[2] if "=" in word else next(left, "")
            if name.endswith(".py") and not os.path.lexists(name):
                raise InputError("there is no such file", path=name, remedy="give a Python file or a module")
            if not name:
                raise InputError(f"{IMPORT} has no value", remedy="give it a file that ends in .py, or a module")
            names.append(name)
        else:
            rest.append(word)
    return rest, names


GIVE_WORKDIR = "give the --workdir of a sweep"
# What commands read in the folder of a sweep, a run or an index: files with these names, and all files below these
# folders.
_FILES = """
    calibration.json choice.json cohort.json config.json error.json floors.json halving.json
    index.json jobs.json lines.json mistakes.json model.json parameters.npz parameters.safetensors record.json
    sweep.json texts.jsonl timing.json tokenizer.json vectors.npy vocabulary.json vocabulary.txt
""".split()
_FOLDERS = {"model", "prefilter", "checkpoints", "vectors"}


def nonempty_path(text: str) -> Path:
    """Parses a path for argparse. An empty path, which would mean the current folder, is an error."""
    if not text:
        raise argparse.ArgumentTypeError("it has no name")
    return Path(text)


def positive(text: str) -> int:
    """Parses a whole number from 1 on, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def check_folder(folder: Path, remedy: str = GIVE_WORKDIR) -> None:
    """Checks that a folder that will be read exists.

    Raises:
      InputError: the folder does not exist, or is not a folder.
    """
    if (found := kind(folder)) != FOLDER:
        problem = f"this is {found}, not a folder" if found else "there is no such folder"
        raise InputError(problem, path=folder, remedy=remedy)


def check_output_folder(folder: Path | None, option: str = "--output") -> None:
    """Checks that an output folder can be created. None means no output folder.

    Raises:
      InputError: a file has the name of the folder, or of a folder above it.
    """
    if folder is None:
        return
    place = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), Path())
    if (found := kind(place)) != FOLDER:
        raise InputError(f"this is {found}", path=place, remedy=f"{option} needs a folder")


def check_output(target: str, *read: Path | str | None) -> None:
    """Checks that an output file can be written, and that it does not replace an input.

    Arguments:
      target: the output file, as in `open_whole`.
      read: the inputs: files, folders or standard input. None is ignored.

    Raises:
      InputError: the target has no name, is a folder, is in a folder that does not exist, or is an input.
    """
    if not target:
        raise InputError("the output has no name", remedy='give a file, or "-" for standard output')
    path = Path(target)
    if target == "-" or (found := kind(path)) not in ("", FILE, FOLDER):  # a pipe or a terminal loses nothing
        return
    if found == FOLDER:
        raise InputError("this is a folder", path=path, remedy="--output needs a file")
    another = "give --output another name"
    if not found and kind(path.parent) != FOLDER:
        raise InputError(f"there is no folder {path.parent}", path=path, remedy=f"make it, or {another}")
    if found and (problem := next(filter(None, (_overwrite_problem(path, one) for one in read)), "")):
        raise InputError(problem, path=path, remedy=another)


def _overwrite_problem(path: Path, read: Path | str | None) -> str:
    """Returns a message if replacing the file `path` would lose the input `read`, else ""."""
    try:
        if read is None:
            return ""
        if read != STANDARD_INPUT and os.path.isdir(read):
            place, folder = path.resolve(), Path(read).resolve()
            if folder not in place.parents:
                return ""
            is_read = place.name in _FILES or _FOLDERS.intersection(place.relative_to(folder).parts[:-1])
            return f"this is a file of {read}, which is read" if is_read else ""
        found = os.fstat(sys.stdin.fileno()) if read == STANDARD_INPUT else os.stat(read)
        return "this is also the input" if os.path.samestat(found, os.stat(path)) else ""
    except (OSError, ValueError, AttributeError):  # the input is missing or closed: reading it raises an error later
        return ""


# The options for the layout of a single file.
FILE_LAYOUT = ("columns", "labels", "quoted")


def add_layout_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds --columns, --labels and --quoted."""
    parser.add_argument(
        "--columns", metavar="A=B,...", help="columns with other names: text_a=question1,text_b=question2,label=same"
    )
    parser.add_argument("--labels", metavar="A=B,...", help="names of the labels: 0=different,1=same")
    parser.add_argument("--quoted", action="store_true", default=None, help="TSV with quotation marks, as in CSV")


def add_own_data_arguments(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("your own data")
    add_layout_arguments(own)
    own.add_argument(
        "--split", metavar="A/B/C", help="split one file into train, dev and test with these shares: 0.8/0.1/0.1"
    )
    own.add_argument("--split-seed", type=_seed, metavar="N", help="seed of the split (default: 0)")


def layout_settings(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Returns setting of the data section -> value, for the options that were given."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


if TYPE_CHECKING:
    from jaxmatch.data.pairs import Split
    from jaxmatch.inference.matcher import Matcher

SPLITS = ("train", "dev", "test")


def add_directory_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-directory", metavar="DIR", help="folder with the data files (default: as in training)")


def add_file_argument(parser: argparse._ActionsContainer, about: str) -> None:
    """Adds --input, a file of labeled pairs."""
    parser.add_argument("--input", type=nonempty_path, metavar="FILE", help=about)


def requested_pairs(arguments: argparse.Namespace, run: Path, matcher: Matcher, split: str) -> tuple[Split, str]:
    """Reads the pairs that a command line requests, and returns them with their name.

    These are the pairs of --input, in the layout that --columns, --labels and --quoted describe. Without --input, they
    are a split of the data set that the model of the run was trained on.

    Raises:
      InputError: the file cannot be used, or an option is given that does not apply; also as in `official_split`.
    """
    from jaxmatch.analysis.evaluate import official_split, own_file

    layout = layout_settings(arguments, FILE_LAYOUT)
    if arguments.input is not None:
        if arguments.data_directory is not None:
            raise InputError("--data-directory applies to a split, not to the file of --input", remedy="leave it out")
        return own_file(matcher, arguments.input, layout), str(arguments.input)
    if layout:
        option = f"--{next(iter(layout))}"
        raise InputError(f"{option} applies to the file of --input, which is missing")
    pairs = official_split(run, matcher, split, arguments.data_directory)
    return pairs, f"{matcher.config['data']['name']} {split}"


# The most characters of a setting's name in a file name.
_LONGEST_NAME = 60


def slug(setting: str) -> str:
    """Returns the name of a setting in a form for file names."""
    return re.sub(r"[^a-z0-9]+", "-", setting.lower()).strip("-")[:_LONGEST_NAME]


def records_of(directory: Path) -> list[dict[str, Any]]:
    """Reads the records of the runs in a folder, whether the runs finished, diverged or were dropped.

    If the folder has a `sweep.json`, these are the records of the sweep that was started last in it, as in its table.
    Otherwise they are the records of all runs.

    Raises:
      InputError: the folder does not exist or holds no records, or a file is damaged.
    """
    from jaxmatch.reporting.records import read_record, read_sweep_folder

    check_folder(directory)
    if (directory / "sweep.json").exists():
        records = list(read_sweep_folder(directory).records.values())
    else:
        records = [read_record(file) for file in sorted((directory / "runs").glob("[!.]*/record.json"))]
    if not records:
        raise no_runs(directory, "holds no runs of a sweep")
    return records


def no_runs(directory: Path, problem: str) -> InputError:
    """Returns the error about a folder without records: none yet if a sweep was started in it, else `problem`."""
    if (directory / "sweep.json").exists():
        return InputError("no run has finished yet", path=directory, remedy=WAIT_OR_RESUME)
    return InputError(problem, path=directory, remedy=GIVE_WORKDIR)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds RUN and --best, which `chosen_run` reads."""
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="a run's folder, WORKDIR/runs/NAME; with --best the --workdir of a sweep"
    )
    parser.add_argument("--best", action="store_true", help="take the run of a sweep with the best dev score")


def chosen_run(arguments: argparse.Namespace) -> Path:
    """Returns the folder of the run that a command line names. With --best, also prints the run on standard error.

    Raises:
      InputError: as in `best_run`.
    """
    if not arguments.best:
        return arguments.run
    folder, line = best_run(arguments.run)
    note(f"note: {line}")
    return folder


def best_run(directory: Path) -> tuple[Path, str]:
    """Returns the folder of the finished run with the best dev score, and a line of text about the run.

    Raises:
      InputError: the folder has no runs, or no run has finished with a dev score, or the runs cannot be compared
        because they were scored on different data or their checkpoints were chosen by different scores.
    """
    from jaxmatch.reporting.records import best_record, setting_name

    check_folder(directory)
    if not (directory / "runs").is_dir():
        raise no_runs(directory, "has no runs for --best to choose from")
    records = [record for record in records_of(directory) if record["status"] == "finished"]
    try:
        best = best_record(records)
    except InputError as error:
        raise InputError(error.problem, path=directory, remedy=error.remedy) from None
    if best is None:
        raise InputError(
            "no run has finished with a score of dev", path=directory, remedy="name a run: WORKDIR/runs/NAME"
        )
    score = best["selected_on"].removeprefix("dev.")
    line = f"{best['run']} ({setting_name(best)}, seed {best['seed']})"
    line += f" is the best of {count_text(len(records), 'run')} by dev {score}, {best['dev'][score]:.4f}"
    return directory / "runs" / best["run"], line
