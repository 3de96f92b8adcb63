"""What `sweep` and `train` share: their options and the way they are handed on."""

import argparse
from collections.abc import Callable
from pathlib import Path

INTERRUPTED = "interrupted; the same command goes on where it stopped"

EXAMPLES = """
Settings of the config are changed by name, with --config.NAME=VALUE, and grid axes with --grid.NAME=VALUE,VALUE:

    --config.optimizer.learning_rate=0.002 --grid.model.blocks=1,2,3
"""


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options after the file."""
    parser.add_argument("--workdir", type=Path, metavar="DIR", help="folder of runs and records (default: runs/NAME OF FILE)")
    parser.add_argument("--seeds", type=positive, metavar="N", help="train N seeds, from the first on, instead of the file's")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and train nothing")
    parser.add_argument("--data-directory", metavar="DIR", help="folder with the data files (default: $JAXMATCH_DATA)")
    parser.add_argument("--vectors", metavar="FILE", help="word vectors in GloVe's text layout: .txt, .txt.gz or .zip")
    parser.epilog = EXAMPLES


def launch(function: Callable[..., str], file: Path, arguments: argparse.Namespace) -> None:
    """Calls `function` (of jaxmatch.experiments.launch) and prints the table it returns."""
    options = {"data_directory": arguments.data_directory, "vectors": arguments.vectors}
    text = function(
        file,
        workdir=arguments.workdir or Path("runs") / file.stem,
        seeds=arguments.seeds,
        dry_run=arguments.dry_run,
        overrides=arguments.dotted["config"],
        grid_overrides=arguments.dotted["grid"],
        options={name: value for name, value in options.items() if value is not None},
    )
    if text:
        print(text)
