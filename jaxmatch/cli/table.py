"""Print the table of a sweep's or a timing's working folder from its records. Nothing is trained or timed."""

import argparse
from pathlib import Path

from jaxmatch.cli.output import show
from jaxmatch.cli.paths import check_folder
from jaxmatch.reporting import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --workdir of a sweep or of a timing")
    parser.add_argument("--format", choices=FORMATS, default="markdown")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.reporting.table import folder_table
    from jaxmatch.reporting.times import read_times, times
    from jaxmatch.workdir import TIMING_FILE

    check_folder(arguments.directory, "give the --workdir of a sweep or of a timing")
    file = arguments.directory / TIMING_FILE
    if file.is_file():
        show(times(read_times(file), arguments.format), end="")
    else:
        show(folder_table(arguments.directory, arguments.format), end="")
