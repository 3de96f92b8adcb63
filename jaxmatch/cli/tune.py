"""Train the grid that a sweep file describes, choose a setting on dev, train it with many seeds, and print both tables.

The setting with the best mean dev score over the grid's seeds is chosen, and trained anew in the folder "final" of the working
folder, with seeds that the grid did not use. Started again, it does only what is missing. Options and settings are those of
`jaxmatch sweep`:

    jaxmatch tune sweeps/re2_tuning.py --dataset wikiqa --seeds 3 --workdir runs/tuning
"""

import argparse
import functools
from pathlib import Path

from jaxmatch.cli import launching

HELP = "choose a setting on dev, then train it with many seeds"
TAKES_OVERRIDES = TAKES_OPTIONS = True
WHEN_INTERRUPTED = launching.INTERRUPTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file of sweeps/, or one of your own")
    parser.add_argument("--final-seeds", type=launching.positive, metavar="N", help="seeds of the chosen setting (default: 10)")
    launching.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.experiments import tuning

    launching.launch(functools.partial(tuning.tune, final_seeds=arguments.final_seeds), arguments)
