"""What commands share: output, arguments, and the runs and pairs that a command line names."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jaxmatch.errors import InputError, printable
from jaxmatch.files import add_path_to_errors, open_atomically, remove_abandoned

if TYPE_CHECKING:
    from jaxmatch.data.pairs import Split
    from jaxmatch.inference.matcher import Matcher

OUTPUT = "standard output"  # its name in error messages
SPLITS = ("train", "dev", "test")


def show(text: object, end: str = "\n") -> None:
    """Prints lines on standard output. Control characters in labels, texts or file names are escaped."""
    with add_path_to_errors(OUTPUT):
        print(printable(str(text), keep="\n"), end=end)


def note(text: str) -> None:
    """Prints a line on standard error. Control characters are escaped."""
    print(printable(text), file=sys.stderr)


def note_verdict(directory: Path) -> None:
    """Prints the verdict on the sweep of a folder on standard error."""
    from jaxmatch.reporting.verdict import verdict_lines

    if lines := verdict_lines(directory):
        print("", *map(printable, lines), sep="\n", file=sys.stderr)


@contextlib.contextmanager
def open_whole(target: str, *sources: Path | str | None) -> Iterator[Any]:
    """Yields a binary file that becomes `target` when the block ends without an error; `-` is standard output.

    A target that is one of the `sources`, which the block reads, is an `InputError`. What is computed in the block does
    not run if the file cannot be written.
    """
    if target == "-":  # in a notebook, it takes only text
        with add_path_to_errors(OUTPUT):
            yield SimpleNamespace(write=lambda content: sys.stdout.write(content.decode()), flush=sys.stdout.flush)
        return
    if Path(target).suffix.lower() in (".gz", ".bz2", ".xz", ".zip", ".xlsx", ".xls", ".ods"):
        remedy = "predict writes .jsonl, .csv and .parquet, and other commands write text"
        raise InputError("unknown format", path=target, remedy=remedy)
    path = Path(os.path.realpath(target))
    if path.exists() and any(path.samefile(file) for file in sources if isinstance(file, Path) and file.exists()):
        raise InputError("this is also the input", path=target, remedy="give --output another name")
    remove_abandoned(path.parent, path.name)  # by an earlier command
    with open_atomically(target) as file:
        yield file


def whole_number(text: str, least: int = 1) -> int:
    """Parses a whole number from `least` on, for argparse."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
    return int(text)


def given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Returns name -> value for those of the options that the command line gives."""
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def folder_of(text: str) -> Path:
    """Parses a folder that will be written, for argparse. A file in its place is found before anything is computed."""
    path = Path(text)
    if not text or "://" in text or any(place.is_file() for place in (path, *path.parents)):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be a folder on this machine")
    return path


def text_of(text: str) -> str:
    """Parses a text for argparse. Bytes that are not UTF-8 arrive as lone surrogates."""
    if not text.strip() or re.search("[\ud800-\udfff]", text):
        raise argparse.ArgumentTypeError("the text is empty or not UTF-8")
    return text


def add_layout_arguments(parser: Any) -> None:
    add = parser.add_argument
    columns = "columns with other names: text_a=q1,text_b=q2,label=same; without names: 1=text_a,2=text_b,3=label"
    add("--columns", metavar="A=B,...", help=columns)
    add("--labels", metavar="A=B,...", help="names of the labels: 0=different,1=same")
    add("--quoted", action="store_true", default=None, help="TSV with quotation marks, as in CSV")


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that are short for settings of the data (`jaxmatch.sweep.files.OF_THE_DATA`)."""
    add_directory_argument(parser, "$JAXMATCH_DATA, for public data sets")
    parser.add_argument("--vectors", metavar="FILE", help="word vectors: .txt, .bin, .gz, .zip; hashed; model2vec:NAME")
    own = parser.add_argument_group("your own data")
    add_layout_arguments(own)
    add = own.add_argument
    add("--split", metavar="A/B/C", help="split one file into train, dev and test with these shares: 0.8/0.1/0.1")
    add("--split-seed", type=partial(whole_number, least=0), metavar="N", help="seed (default: 0)")


def add_split_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--split", choices=SPLITS, default=default, help=f"split of its data set (default: {default})")
    add_directory_argument(parser)


def add_directory_argument(parser: argparse.ArgumentParser, default: str = "as in training") -> None:
    parser.add_argument("--data-directory", metavar="DIR", help=f"folder with the data files (default: {default})")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds RUN and --best, which `chosen_run` reads."""
    run = "a run's folder, WORKDIR/runs/NAME, or the --workdir of a sweep: its run with the best dev score"
    parser.add_argument("run", type=Path, metavar="RUN", help=run)
    parser.add_argument("--best", action="store_true", help="RUN is a sweep's folder (default: found out)")


def chosen_run(arguments: argparse.Namespace) -> Path:
    """Returns the folder of the run that a command line names. The best run of a sweep is named on standard error."""
    from jaxmatch.reporting.records import best_run, is_sweep

    if not arguments.best and not is_sweep(arguments.run):
        return arguments.run
    folder, line = best_run(arguments.run)
    note(line)
    return folder


def requested_pairs(arguments: argparse.Namespace, matcher: Matcher, split: str) -> tuple[Split, str]:
    """Returns the pairs of --input, or else of a split of the data set that a run was trained on, with their name."""
    from jaxmatch.analysis.evaluate import official_split, own_file

    layout = given(arguments, ("columns", "labels", "quoted", "by"))
    if arguments.input is not None:
        return own_file(matcher, arguments.input, layout), str(arguments.input)
    if layout:
        raise InputError(f"--{next(iter(layout))} applies to the file of --input, which is missing")
    found = official_split(matcher, split, arguments.data_directory)
    return found, f"{matcher.config['data']['name']} {split}"
