"""Train the grid of runs that a sweep file describes, and print its table.

The plan is shown first. Runs that are already in the working folder are not trained again. --config.NAME=VALUE changes
a setting of all runs, --grid.NAME=VALUE,VALUE an axis of the grid. Options of the sweep file itself are given as
--NAME=VALUE:

    jaxmatch sweep grid --dataset sick --data-directory data --vectors glove.840B.300d.zip \\
        --config.training.epochs=10 --grid.model.blocks=1,2,3

A sweep file can also ask for an ensemble, an occlusion analysis or attention weights of the trained runs.
"""

import argparse
from pathlib import Path

from jaxmatch.cli import analyses, launching
from jaxmatch.cli.distributed import on_all_hosts

TAKES_OVERRIDES = TAKES_OPTIONS = True
WHEN_INTERRUPTED = launching.INTERRUPTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a sweep file or its name (jaxmatch configs lists them)"
    )
    launching.add_arguments(parser)
    launching.add_floors_argument(parser)


@on_all_hosts
def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.sweep import launch
    from jaxmatch.sweep.files import CONFIGS, SWEEPS

    if launching.launch(launch.sweep, arguments, (SWEEPS, CONFIGS)):
        analyses.run(launching.workdir_of(arguments), arguments.data_directory)
