"""Commands that train: sweep, train, tune; and the workers that train for them (--on)."""

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jaxmatch.cli.common import add_data_arguments, folder_of, given, note, note_verdict, show, whole_number
from jaxmatch.errors import InputError, count_text

# Option of the command -> the setting that it is short for.
SHORT = {"epochs": "training.epochs", "learning_rate": "optimizer.learning_rate", "batch_size": "training.batch_size"}


def add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    _add_launch_arguments(parser)
    baselines = "simple baselines below the runs: all that are installed, none, or some of majority, overlap, cosine, "
    baselines += "tfidf (pip install 'jaxmatch[baselines]') and, for rankings, bm25 (default: those of the file)"
    parser.add_argument("--baselines", metavar="NAME,...", help=baselines)


add_train_arguments = add_sweep_arguments


def add_tune_arguments(parser: argparse.ArgumentParser) -> None:
    _add_launch_arguments(parser)
    add = parser.add_argument
    add("--final-seeds", type=whole_number, metavar="N", help="number of seeds of the chosen setting (default: 10)")
    eta = functools.partial(whole_number, least=2)
    add("--eta", type=eta, metavar="N", help="with --halving: the best n / N of n settings continue (default: 3)")
    add("--rungs", type=_epochs, metavar="E,E,...", help="with --halving: epochs after which settings are dropped")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--halving", action="store_true", help="drop settings that fall behind early (successive halving)")
    add("--optuna", type=whole_number, metavar="TRIALS", help="number of settings for Optuna to suggest and train")


def _epochs(text: str) -> tuple[int, ...]:
    return tuple(map(whole_number, text.split(",")))


def _add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a sweep or config file, or its name (jaxmatch configs lists them)")
    workdir = "folder of runs and records (default: runs/NAME of the file; for train with its options: runs/re2_snli)"
    add("--workdir", type=folder_of, metavar="DIR", help=workdir)
    add("--seeds", type=whole_number, metavar="N", help="number of seeds, counted from the file's first")
    for option, setting in SHORT.items():
        add(f"--{option.replace('_', '-')}", metavar="VALUE", help=f"short for --config.{setting}=VALUE")
    add("--dry-run", action="store_true", help="show the plan, on standard error, and train nothing")
    add("--smoke", action="store_true", help="try it quickly: a tiny model, generated data; in runs/NAME-smoke")
    log = "follow the runs with a listener of your own, as module:Class or file.py:Class"
    add("--log", action="append", default=[], metavar="NAME", help=log)
    add_data_arguments(parser)
    add = parser.add_argument_group("clusters").add_argument
    on = "ray: train on the Ray cluster at HOST:PORT, or of this machine. slurm: submit jobs to Slurm (not for tune)"
    add("--on", metavar="ray[:ADDRESS]|slurm", help=on)
    store = "with --on ray: an object store, such as s3://BUCKET/FOLDER; without it, all nodes must share --workdir"
    add("--store", metavar="URL", help=store)
    add("--slurm", type=Path, metavar="FILE", help="with --on slurm: TOML file with options of the jobs")
    add("--distributed", action="store_true", help="train as one process of several, which JAX finds by itself")
    add("--coordinator", metavar="ADDRESS", help="also --distributed: HOST:PORT of process 0")
    add("--process", type=_process, metavar="I/N", help="with --coordinator: this process, from 0, and their number")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--status", action="store_true", help="with --on slurm: list the cohorts with their jobs and logs")
    add("--collect", action="store_true", help="with --on slurm: print the table of the runs that have finished")


def _process(text: str) -> tuple[int, ...]:
    process, processes = map(int, text.split("/"))
    return process, processes


def settings_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns dotted name -> value for the settings that --config and the options of `SHORT` change."""
    from jaxmatch.sweep.files import OF_THE_DATA

    options = SHORT | OF_THE_DATA
    for name in given(arguments, options):
        for kind in ("config", "grid"):
            if options[name] in arguments.dotted[kind]:
                same = f"--{name.replace('_', '-')} and --{kind}.{options[name]} are the same setting"
                raise InputError(same, remedy="give one of them")
    return arguments.dotted["config"] | {SHORT[name]: value for name, value in given(arguments, SHORT).items()}


@contextlib.contextmanager
def engine_of(arguments: argparse.Namespace) -> Iterator[Any]:
    """Yields the engine that a command line requests; None: this process trains."""
    kind, _, address = (arguments.on or "").partition(":")
    if arguments.on not in (None, "slurm") and kind != "ray":
        raise InputError(f"cohorts cannot be trained on {arguments.on!r}", remedy="give --on ray, or --on slurm")
    for option, needed in (("slurm", "slurm"), ("status", "slurm"), ("collect", "slurm"), ("store", "ray")):
        if getattr(arguments, option) and kind != needed:
            raise InputError(f"--{option} needs --on {needed}")
    # A worker runs in another folder.
    imports = [os.path.abspath(name) if name.endswith(".py") or os.sep in name else name for name in arguments.imports]
    load = functools.partial(extend, tuple(imports), os.getcwd())
    if kind == "ray":
        from jaxmatch.sweep.on_ray import RayEngine

        with contextlib.closing(RayEngine(address, load, arguments.store or "")) as engine:
            yield engine
    elif kind == "slurm":
        from jaxmatch.sweep.on_slurm import SlurmEngine, read_options

        if arguments.subcommand == "tune":
            problem = "tune waits for the results of cohorts, but a job of Slurm trains later"
            raise InputError(problem, remedy="leave out --on, or give --on ray")
        if arguments.log:
            raise InputError("--log does not apply to jobs of Slurm, which train later", remedy="leave it out")
        yield SlurmEngine(read_options(arguments.slurm), load)
    else:
        yield None


@functools.cache  # a worker may train several cohorts
def extend(imports: tuple[str, ...], folder: str) -> None:
    """Loads, in a worker, the extensions of --import, also from the command's folder."""
    from jaxmatch import extend

    if folder not in sys.path:
        sys.path.append(folder)
    extend.load(imports)


def _print_results(workdir: Path) -> None:
    """Prints the table of the finished runs of a folder. Raises InputError if runs are missing."""
    from jaxmatch.reporting.records import read_sweep_folder
    from jaxmatch.reporting.table import folder_table

    folder = read_sweep_folder(workdir)
    if folder.records:
        show(folder_table(workdir, verbose=False), end="")
    if folder.missing:
        problem = f"{len(folder.missing)} of {count_text(len(folder.runs), 'run')} missing"
        raise InputError(problem, path=workdir, remedy="see --status")


def _launch(function: Callable[..., str], arguments: argparse.Namespace, **more: Any) -> None:
    """Calls a launcher and prints its tables. With --distributed, process 0 does so, and the others train with it."""
    run = functools.partial(_launch_here, function, arguments, **more)
    if not (arguments.distributed or arguments.coordinator or arguments.process):
        return run()
    if arguments.on is not None:
        raise InputError("--on and --distributed cannot be combined", remedy="give one of them")
    from jaxmatch.sweep import launch

    launch.on_all_hosts(run, arguments.coordinator, *(arguments.process or ()))


def _launch_here(function: Callable[..., str], arguments: argparse.Namespace, **more: Any) -> None:
    """Does the work of `_launch`. If runs failed, the table of the others is printed before the error is raised."""
    from jaxmatch.cli import analyses
    from jaxmatch.sweep.files import CONFIGS, OF_THE_DATA, SWEEPS, find
    from jaxmatch.sweep.launch import Submitted
    from jaxmatch.workdir import FailedCohorts

    name, kinds = arguments.file.stem, (SWEEPS, CONFIGS)
    if arguments.subcommand == "train":
        name, kinds = "_".join((name, *arguments.options.values())), (CONFIGS,)
    workdir = arguments.workdir or Path("runs") / (name + "-smoke" * arguments.smoke)
    try:
        with engine_of(arguments) as engine:
            if arguments.status:
                from jaxmatch.sweep import on_slurm

                show(on_slurm.status(workdir.absolute()))
                return
            if arguments.collect:
                _print_results(workdir)
            else:
                text = function(
                    find(arguments.file, kinds),
                    workdir=workdir,
                    seeds=arguments.seeds,
                    dry_run=arguments.dry_run,
                    overrides=settings_of(arguments),
                    grid_overrides=arguments.dotted["grid"],
                    options=arguments.options | given(arguments, OF_THE_DATA),
                    smoke=arguments.smoke,
                    command=arguments.command_line,
                    log=arguments.log,
                    engine=engine,
                    **more,
                )
                show(text, end="")
    except FailedCohorts as failed:
        show(failed.table or "", end="")
        raise
    except Submitted as submitted:
        note(f"{submitted}; --status lists them, --collect prints the table")
        return
    if not (arguments.dry_run or arguments.collect):
        note_verdict(workdir / "final" if arguments.subcommand == "tune" else workdir)
    if arguments.subcommand == "sweep" and not arguments.dry_run:
        analyses.run_analyses(workdir, arguments.data_directory)


def sweep(arguments: argparse.Namespace) -> None:
    """Train the grid of runs that a sweep file describes, and print its table.

    The plan is shown first. Runs that are already in the working folder are not trained again. --config.NAME=VALUE
    changes a setting of all runs, --grid.NAME=VALUE,VALUE an axis of the grid, --NAME=VALUE an option of the file:

        jaxmatch sweep grid --dataset sick --data-directory data --vectors glove.840B.300d.zip \\
            --config.training.epochs=10 --grid.model.blocks=1,2,3

    A sweep file can also ask for an ensemble, an occlusion analysis or attention weights of the trained runs.
    """
    from jaxmatch.sweep import launch

    _launch(launch.sweep, arguments, baselines=arguments.baselines)


def train(arguments: argparse.Namespace) -> None:
    """Train the config of a file, with one seed or with --seeds N, and print its scores.

    The folder, records and tables are those of a sweep with one setting. --config.NAME=VALUE changes a setting, and
    --NAME=VALUE gives an option of the file, such as --dataset:

        jaxmatch train re2 --dataset sick --data-directory data --vectors glove.840B.300d.zip \\
            --config.optimizer.learning_rate=0.002
    """
    from jaxmatch.sweep import launch

    _launch(launch.train, arguments, baselines=arguments.baselines)


def tune(arguments: argparse.Namespace) -> None:
    """Train the grid of a sweep file, choose a setting on dev, train it with new seeds, and print both tables.

    The setting with the best mean dev score over the grid's seeds is chosen. It is trained in the folder "final" of the
    workdir, with seeds that the grid did not use. Run again, the command does only what is missing.

        jaxmatch tune re2_tuning --dataset wikiqa --data-directory data --vectors glove.840B.300d.zip \\
            --seeds 3 --workdir runs/tuning

    With --halving, after a ninth and after a third of the epochs (--rungs), only the best third (--eta) of the settings
    continues, by the mean of their seeds' best dev scores so far.

    With --optuna, Optuna suggests the settings (pip install 'jaxmatch[optuna]'). It searches ranges, and the axes of
    the grid as choices. Suggestions are taken in batches that train as one program:

        jaxmatch tune re2 --dataset wikiqa --data-directory data --vectors glove.840B.300d.zip \\
            --optuna 40 --space.optimizer.learning_rate=log:1e-4:1e-2 --space.model.blocks=1:3
    """
    from jaxmatch.sweep.tune import tune

    _launch(tune, arguments, final_seeds=arguments.final_seeds, **_search(arguments))


def _search(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `jaxmatch.sweep.tune.tune` for --halving and --optuna."""
    halving, space = given(arguments, ("eta", "rungs")), arguments.dotted["space"]
    if halving and not arguments.halving:
        raise InputError(f"--{next(iter(halving))} needs --halving")
    if space and not arguments.optuna:
        raise InputError(f"--space.{next(iter(space))} needs --optuna TRIALS")
    for name in sorted(arguments.dotted["grid"].keys() & space.keys()):
        raise InputError(f"--grid.{name} and --space.{name} cannot be combined", remedy="give one of them")
    return {"halve": arguments.halving, "trials": arguments.optuna, "space": space, **halving}
