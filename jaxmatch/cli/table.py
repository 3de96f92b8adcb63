"""Print the table of a sweep's working folder, from the records in it; nothing is trained."""

import argparse
from pathlib import Path

HELP = "print the table of finished runs"
FORMATS = ("markdown", "latex", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --workdir of a sweep")
    parser.add_argument("--format", choices=FORMATS, default="markdown")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.experiments import launch

    print(launch.table(arguments.directory, arguments.format))
