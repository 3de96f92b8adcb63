"""Write one HTML page about a sweep's working folder: tables, learning curves, failures, plan, runs and settings.

The page needs no other file and no network. Nothing is trained. The page of an unfinished sweep shows what is there so
far.
"""

import argparse
from pathlib import Path

from jaxmatch.cli.output import open_whole, show
from jaxmatch.cli.paths import check_folder, check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --workdir of a sweep or of a tuning")
    parser.add_argument(
        "--output", metavar="FILE", help='file of the page (default: DIR/report.html; "-": standard output)'
    )


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.reporting.report import report

    check_folder(arguments.directory)
    output = str(arguments.directory / "report.html") if arguments.output is None else arguments.output
    check_output(output, arguments.directory)
    page = report(arguments.directory).encode()
    with open_whole(output) as file:
        file.write(page)
    if output != "-":
        show(output)
