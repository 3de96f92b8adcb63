"""Train the grid of runs that a sweep file describes, and print its table.

The plan is shown first. Whatever is already in the working folder is not trained again.
"""

import argparse
from pathlib import Path

from jaxmatch.cli import launching

HELP = "train a grid of runs and print its table"
TAKES_OVERRIDES = True
WHEN_INTERRUPTED = launching.INTERRUPTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file of sweeps/, or one of your own")
    launching.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.experiments import launch

    launching.launch(launch.sweep, arguments.file, arguments)
