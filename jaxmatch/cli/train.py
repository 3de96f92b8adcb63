"""Train the config of a file, with one seed or with --seeds N, and print its scores.

The folder, records and tables are those of a sweep with one setting. --config.NAME=VALUE changes a setting, and
--NAME=VALUE gives an option of the file, such as --dataset:

    jaxmatch train re2 --dataset sick --data-directory data --vectors glove.840B.300d.zip \\
        --config.optimizer.learning_rate=0.002
"""

import argparse
from pathlib import Path

from jaxmatch.cli import launching
from jaxmatch.cli.distributed import on_all_hosts

TAKES_OVERRIDES = TAKES_OPTIONS = True
WHEN_INTERRUPTED = launching.INTERRUPTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="CONFIG", help="a config file or its name (jaxmatch configs lists them)"
    )
    launching.add_arguments(parser)
    launching.add_floors_argument(parser)


@on_all_hosts
def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.sweep import launch
    from jaxmatch.sweep.files import CONFIGS

    launching.launch(launch.train, arguments, (CONFIGS,))
