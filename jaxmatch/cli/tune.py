"""Train the grid of a sweep file, choose a setting on dev, train it with new seeds, and print both tables.

The setting with the best mean dev score over the grid's seeds is chosen. It is trained in the folder "final" of the
workdir, with seeds that the grid did not use. Run again, the command does only what is missing. It takes the options of
`jaxmatch sweep` except --floors and those of --on slurm:

    jaxmatch tune re2_tuning --dataset wikiqa --data-directory data --vectors glove.840B.300d.zip \\
        --seeds 3 --workdir runs/tuning

With --halving, settings that fall behind are dropped early (successive halving). By default there are two rungs: after
a ninth and after a third of the epochs. At each rung, the best third of the settings continues. A setting is ranked by
the mean of its seeds' best dev scores so far. --eta and --rungs change this.

With --optuna, Optuna suggests the settings (pip install 'jaxmatch[optuna]'). It searches ranges, and the axes of the
grid as choices. Suggestions are taken in batches that train as one program:

    jaxmatch tune re2 --dataset wikiqa --data-directory data --vectors glove.840B.300d.zip \\
        --optuna 40 --space.optimizer.learning_rate=log:1e-4:1e-2 --space.model.blocks=1:3
"""

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxmatch.cli import launching
from jaxmatch.cli.distributed import on_all_hosts
from jaxmatch.errors import InputError

TAKES_OVERRIDES = TAKES_OPTIONS = TAKES_SPACE = True
WHEN_INTERRUPTED = launching.INTERRUPTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a sweep file or its name (jaxmatch configs lists them)"
    )
    parser.add_argument(
        "--final-seeds",
        type=launching.positive,
        metavar="N",
        help="number of seeds of the chosen setting (default: 10)",
    )
    parser.add_argument(
        "--halving", action="store_true", help="drop settings that fall behind early (successive halving)"
    )
    parser.add_argument(
        "--eta",
        type=_eta,
        metavar="N",
        help="with --halving: the best n / N of n settings continue (default: 3)",
    )
    parser.add_argument(
        "--rungs",
        type=_rungs,
        metavar="E,E,...",
        help="with --halving: epochs after which settings are dropped",
    )
    parser.add_argument(
        "--optuna", type=launching.positive, metavar="TRIALS", help="number of settings for Optuna to suggest and train"
    )
    parser.add_argument(
        "--trials-at-once",
        type=launching.positive,
        metavar="N",
        help="with --optuna: settings suggested together, for one program (default: 8)",
    )
    launching.add_arguments(parser)


def _eta(text: str) -> int:
    number = launching.positive(text)
    if number < 2:
        raise argparse.ArgumentTypeError(f"{text!r} drops nothing: give a whole number from 2 on")
    return number


def _rungs(text: str) -> tuple[int, ...]:
    return tuple(map(launching.positive, text.split(",")))


def _halving(arguments: argparse.Namespace) -> Mapping[str, Any]:
    given = {name: value for name in ("eta", "rungs") if (value := getattr(arguments, name)) is not None}
    if given and not arguments.halving:
        raise InputError(f"--{next(iter(given))} needs --halving")
    return {"halve": True, **given} if arguments.halving else {}


def _search(arguments: argparse.Namespace) -> Mapping[str, Any]:
    space, at_once = arguments.dotted["space"], arguments.trials_at_once
    if arguments.optuna is None:
        if space or at_once:
            option = f"--space.{next(iter(space))}" if space else "--trials-at-once"
            raise InputError(f"{option} needs --optuna TRIALS")
        return {}
    if arguments.halving:
        raise InputError("--optuna and --halving cannot be combined", remedy="give one of them")
    for setting in sorted(arguments.dotted["grid"].keys() & space.keys()):
        raise InputError(f"--grid.{setting} and --space.{setting} cannot be combined", remedy="give one of them")
    return {"trials": arguments.optuna, "space": space, **({"trials_at_once": at_once} if at_once else {})}


@on_all_hosts
def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.sweep import tuning
    from jaxmatch.sweep.files import CONFIGS, SWEEPS

    tune = functools.partial(
        tuning.tune, final_seeds=arguments.final_seeds, **_halving(arguments), **_search(arguments)
    )
    launching.launch(tune, arguments, (SWEEPS, CONFIGS))
