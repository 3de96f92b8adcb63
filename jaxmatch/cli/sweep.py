"""Train the grid of runs that a sweep file describes, print its table, and make of the runs what the file asks for.

The plan is shown first. Whatever is already in the working folder is not trained again. Settings are changed by name, for all
runs or as an axis of the grid; options that a sweep file has of its own are given as --NAME=VALUE:

    jaxmatch sweep sweeps/grid.py --config.training.epochs=10 --grid.model.blocks=1,2,3
"""

import argparse
from pathlib import Path

from jaxmatch.cli import analyses, launching

HELP = "train a grid of runs and print its table"
TAKES_OVERRIDES = TAKES_OPTIONS = True
WHEN_INTERRUPTED = launching.INTERRUPTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file of sweeps/, or one of your own")
    launching.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.sweep import launch

    launching.launch(launch.sweep, arguments)
    if not arguments.dry_run:
        analyses.run(launching.workdir_of(arguments), arguments.data_directory)
