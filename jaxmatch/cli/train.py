"""Commands that train: sweep, train, tune; and the workers that train for them (--on)."""

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.cli.common import add_own_data_arguments, nonempty_path, note, positive, show, suggesting_options
from jaxmatch.errors import InputError, UnknownOption, nearest

ENGINES = ("ray", "slurm")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options for training by workers elsewhere."""
    parser.add_argument(
        "--on",
        metavar="ray[:ADDRESS]|slurm",
        help="ray: train on the Ray cluster at HOST:PORT, or of this machine (needs jaxmatch[ray]). slurm: submit "
        "jobs to Slurm (needs jaxmatch[slurm]; not for tune)",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="with --on ray: keep checkpoints and records in an object store, such as s3://BUCKET/FOLDER; without it, "
        "all nodes must share --workdir",
    )
    parser.add_argument(
        "--slurm",
        type=Path,
        metavar="FILE",
        help="with --on slurm: TOML file with options of the jobs, such as partition",
    )


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command that several hosts run as one."""
    parser.add_argument(
        "--distributed", action="store_true", help="train as one process of several, which JAX finds by itself"
    )
    parser.add_argument("--coordinator", metavar="ADDRESS", help="also --distributed: HOST:PORT of process 0")
    parser.add_argument(
        "--process", type=_process, metavar="I/N", help="with --coordinator: index of this process, from 0, and number"
    )


def _process(text: str) -> tuple[int, int]:
    process, processes = map(int, text.split("/"))
    return process, processes


def on_all_hosts(run: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], None]:
    """Wraps a subcommand so that, with --distributed, process 0 runs it and the other processes train with it."""

    @functools.wraps(run)
    def wrapped(arguments: argparse.Namespace) -> None:
        if not (arguments.distributed or arguments.coordinator or arguments.process):
            return run(arguments)
        if arguments.on is not None:
            raise InputError("--on and --distributed cannot be combined", remedy="give one of them")
        from jaxmatch.sweep import execute

        execute.on_all_hosts(functools.partial(run, arguments), arguments.coordinator, *(arguments.process or ()))

    return wrapped


@contextlib.contextmanager
def engine_of(arguments: argparse.Namespace) -> Iterator[Any]:
    """Yields the engine that a command line requests; None: this process trains.

    Raises:
      InputError: there is no such engine, the engine is not installed, or another option does not apply to it.
    """
    kind, _, address = (arguments.on or "").partition(":")
    if kind != "slurm" and arguments.slurm is not None:
        raise InputError("--slurm needs --on slurm")
    if kind != "ray" and arguments.store is not None:
        raise InputError("--store needs --on ray")
    if arguments.on is None:
        yield None
        return
    if kind not in ENGINES:
        raise InputError(f"cohorts cannot be trained on {kind!r}", remedy=nearest(kind, ENGINES))
    load = functools.partial(extend, _absolute(arguments.imports), os.getcwd())
    if kind == "slurm":
        yield _slurm(arguments, address, load)
        return
    from jaxmatch.sweep.on_ray import RayEngine

    engine = RayEngine(address, load, arguments.store or "")
    try:
        yield engine
    finally:
        engine.close()


def _slurm(arguments: argparse.Namespace, address: str, load: Callable[[], None]) -> Any:
    if address:
        raise InputError(f"slurm:{address} is unknown", remedy="give --on slurm")
    if arguments.subcommand == "tune":
        problem = "tune waits for the results of cohorts, but a job of Slurm trains later"
        raise InputError(problem, remedy="leave out --on, or give --on ray")
    if arguments.log:
        problem = f"--log does not apply to {arguments.subcommand} --on slurm, whose jobs train later"
        raise InputError(problem, remedy="leave it out")
    from jaxmatch.sweep.on_slurm import SlurmEngine, read_options

    return SlurmEngine(read_options(arguments.slurm), load)


def _absolute(imports: Sequence[str]) -> tuple[str, ...]:
    """Returns the values of --import, with absolute paths for files, because a worker runs in another folder."""
    return tuple(os.path.abspath(name) if name.endswith(".py") or os.sep in name else name for name in imports)


def extend(imports: Sequence[str], folder: str) -> None:
    """Loads, in a worker, the extensions of installed packages and of --import (jaxmatch/extend.py).

    Arguments:
      imports: the values of --import.
      folder: the folder in which the command was started. Modules are also imported from there.
    """
    from jaxmatch import extend

    if folder not in sys.path:
        sys.path.append(folder)
    extend.load_installed()
    for name in imports:
        if name not in _loaded:
            extend.load([name])
            _loaded.add(name)


# The values of --import that this worker has loaded. It may train several cohorts.
_loaded: set[str] = set()


# Option of the command -> the setting that it is short for.
SHORT = {"epochs": "training.epochs", "learning_rate": "optimizer.learning_rate", "batch_size": "training.batch_size"}


def _folder(text: str) -> Path:
    """Parses the path of a folder on this machine, for argparse."""
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text} is not a local folder; give it as --store, with --on ray")
    return nonempty_path(text)


def add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that follow the file."""
    parser.add_argument(
        "--workdir",
        type=_folder,
        metavar="DIR",
        help="folder of runs and records (default: runs/NAME of the file; for train, followed by the values of its "
        "options: runs/re2_snli)",
    )
    parser.add_argument("--seeds", type=positive, metavar="N", help="number of seeds, counted from the file's first")
    for name, setting in SHORT.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=f"short for --config.{setting}=VALUE")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, on standard error, and train nothing")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="try it quickly: a tiny model, a few steps, generated data (default folder: runs/NAME-smoke)",
    )
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="NAME",
        help="follow the runs: tensorboard, or a listener of your own as module:Class or file.py:Class",
    )
    parser.add_argument(
        "--data-directory",
        metavar="DIR",
        help="folder with the data files (default for public data sets: $JAXMATCH_DATA)",
    )
    parser.add_argument("--vectors", metavar="FILE", help="text file of word vectors, also as .gz or .zip; or hashed")
    add_own_data_arguments(parser)
    add_engine_arguments(parser)
    add_host_arguments(parser)


def add_floors_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --floors. `tune` does not have it, because its tables are for choosing a setting."""
    parser.add_argument(
        "--floors",
        metavar="NAMES",
        help="simple baselines to show below the runs: all, none, or some of majority, overlap, cosine, tfidf and (for "
        "rankings) bm25, separated by commas; tfidf needs pip install 'jaxmatch[floors]' (default: those of the file)",
    )


def parse_file_options(words: Sequence[str]) -> dict[str, str]:
    """Parses the options that only the launched file knows, as `--name=value` or `--name value`.

    Raises:
      InputError: a word is not an option, or an option has no value.
    """
    from jaxmatch.sweep.files import OF_THE_DATA

    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if not option.startswith("--") or not option[2:].replace("-", "_").isidentifier():
            raise UnknownOption(f"{word!r} is not an option", option=word, remedy="see jaxmatch sweep --help")
        if not equals:
            value = next(rest, None)
            value = None if value is not None and value.startswith("--") else value
        if value is None:
            raise UnknownOption(
                f"{option} is not an option of the command, or has no value",
                option=option,
                remedy="see jaxmatch sweep --help",
            )
        if (dashed := option.replace("_", "-")) != option and option[2:] in OF_THE_DATA:
            raise InputError(f"{option} is not an option", remedy=f'did you mean "{dashed}"?')
        options[option[2:].replace("-", "_")] = value
    return options


def settings_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns dotted name -> value for the settings that --config and the options of `SHORT` change.

    Raises:
      InputError: a setting is given in two ways.
    """
    from jaxmatch.sweep.files import OF_THE_DATA

    settings = dict(arguments.dotted["config"])
    for name, setting in (SHORT | OF_THE_DATA).items():
        value = getattr(arguments, name)
        if value is None:
            continue
        for kind in ("config", "grid"):
            if setting in arguments.dotted[kind]:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} and --{kind}.{setting} are the same setting", remedy="give one of them")
        if name in SHORT:
            settings[setting] = value
    return settings


def workdir_of(arguments: argparse.Namespace) -> Path:
    """Returns --workdir, or runs/NAME by default. NAME is the name of the file; --smoke adds "-smoke" to it.

    For `train`, the values of the file's options are added to the name: runs/re2_snli.
    """
    name = arguments.file.stem
    if arguments.subcommand == "train":
        name = "_".join((name, *parse_file_options(arguments.rest).values()))
    return arguments.workdir or Path("runs") / (name + "-smoke" * arguments.smoke)


def run_launcher(function: Callable[..., str], arguments: argparse.Namespace, kinds: Sequence[str]) -> bool:
    """Calls a launcher and prints the table that it returns. If runs failed, prints the table of the others.

    Arguments:
      function: the launcher, such as `jaxmatch.sweep.launch.sweep`. Its first argument is the file.
      arguments: the arguments of the command.
      kinds: the kinds of files among which a name is looked up (sweep/files.py).

    Returns:
      Whether all requested runs are trained.

    Raises:
      InputError: no file has this name, or the request cannot be carried out.
      FailedCohorts: some runs failed.
    """
    from jaxmatch.config.settings import OWN_LAYOUT
    from jaxmatch.sweep.execute import Submitted
    from jaxmatch.sweep.files import find
    from jaxmatch.workdir import FailedCohorts

    with suggesting_options(arguments.parser):
        options = parse_file_options(arguments.rest)
    for name in ("data_directory", "vectors", *OWN_LAYOUT):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    try:
        with engine_of(arguments) as engine, suggesting_options(arguments.parser):
            text = function(
                find(arguments.file, kinds),
                workdir=workdir_of(arguments),
                seeds=arguments.seeds,
                dry_run=arguments.dry_run,
                overrides=settings_of(arguments),
                grid_overrides=arguments.dotted["grid"],
                options=options,
                smoke=arguments.smoke,
                command=arguments.command_line,
                log=arguments.log,
                engine=engine,
                **({"floors": arguments.floors} if "floors" in arguments else {}),
            )
    except FailedCohorts as failed:
        if failed.table:
            show(failed.table, end="")
        raise
    except Submitted as submitted:
        note(f"{submitted}; squeue lists them, jaxmatch table {workdir_of(arguments)} prints the table")
        return False
    if text:
        show(text, end="")
    return not arguments.dry_run


def add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a sweep file or its name (jaxmatch configs lists them)"
    )
    add_launch_arguments(parser)
    add_floors_argument(parser)


@on_all_hosts
def sweep(arguments: argparse.Namespace) -> None:
    """Train the grid of runs that a sweep file describes, and print its table.

    The plan is shown first. Runs that are already in the working folder are not trained again. --config.NAME=VALUE
    changes a setting of all runs, --grid.NAME=VALUE,VALUE an axis of the grid. Options of the sweep file itself are
    given as --NAME=VALUE:

        jaxmatch sweep grid --dataset sick --data-directory data --vectors glove.840B.300d.zip \\
            --config.training.epochs=10 --grid.model.blocks=1,2,3

    A sweep file can also ask for an ensemble, an occlusion analysis or attention weights of the trained runs.
    """
    from jaxmatch.cli import analyses
    from jaxmatch.sweep import launch
    from jaxmatch.sweep.files import CONFIGS, SWEEPS

    if run_launcher(launch.sweep, arguments, (SWEEPS, CONFIGS)):
        analyses.run_analyses(workdir_of(arguments), arguments.data_directory)


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="CONFIG", help="a config file or its name (jaxmatch configs lists them)"
    )
    add_launch_arguments(parser)
    add_floors_argument(parser)


@on_all_hosts
def train(arguments: argparse.Namespace) -> None:
    """Train the config of a file, with one seed or with --seeds N, and print its scores.

    The folder, records and tables are those of a sweep with one setting. --config.NAME=VALUE changes a setting, and
    --NAME=VALUE gives an option of the file, such as --dataset:

        jaxmatch train re2 --dataset sick --data-directory data --vectors glove.840B.300d.zip \\
            --config.optimizer.learning_rate=0.002
    """
    from jaxmatch.sweep import launch
    from jaxmatch.sweep.files import CONFIGS

    run_launcher(launch.train, arguments, (CONFIGS,))


def add_tune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a sweep file or its name (jaxmatch configs lists them)"
    )
    parser.add_argument(
        "--final-seeds",
        type=positive,
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
        "--optuna", type=positive, metavar="TRIALS", help="number of settings for Optuna to suggest and train"
    )
    parser.add_argument(
        "--trials-at-once",
        type=positive,
        metavar="N",
        help="with --optuna: settings suggested together, for one program (default: 8)",
    )
    add_launch_arguments(parser)


def _eta(text: str) -> int:
    number = positive(text)
    if number < 2:
        raise argparse.ArgumentTypeError(f"{text!r} drops nothing: give a whole number from 2 on")
    return number


def _rungs(text: str) -> tuple[int, ...]:
    return tuple(map(positive, text.split(",")))


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
def tune(arguments: argparse.Namespace) -> None:
    """Train the grid of a sweep file, choose a setting on dev, train it with new seeds, and print both tables.

    The setting with the best mean dev score over the grid's seeds is chosen. It is trained in the folder "final" of the
    workdir, with seeds that the grid did not use. Run again, the command does only what is missing. It takes the
    options of `jaxmatch sweep` except --floors and those of --on slurm:

        jaxmatch tune re2_tuning --dataset wikiqa --data-directory data --vectors glove.840B.300d.zip \\
            --seeds 3 --workdir runs/tuning

    With --halving, settings that fall behind are dropped early (successive halving). By default there are two rungs:
    after a ninth and after a third of the epochs. At each rung, the best third of the settings continues. A setting is
    ranked by the mean of its seeds' best dev scores so far. --eta and --rungs change this.

    With --optuna, Optuna suggests the settings (pip install 'jaxmatch[optuna]'). It searches ranges, and the axes of
    the grid as choices. Suggestions are taken in batches that train as one program:

        jaxmatch tune re2 --dataset wikiqa --data-directory data --vectors glove.840B.300d.zip \\
            --optuna 40 --space.optimizer.learning_rate=log:1e-4:1e-2 --space.model.blocks=1:3
    """
    from jaxmatch.sweep import tune as tuning
    from jaxmatch.sweep.files import CONFIGS, SWEEPS

    run = functools.partial(tuning.tune, final_seeds=arguments.final_seeds, **_halving(arguments), **_search(arguments))
    run_launcher(run, arguments, (SWEEPS, CONFIGS))
