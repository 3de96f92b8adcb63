"""--on: the workers that train the cohorts of `jaxmatch sweep`, `train` or `tune`, if this process does not."""

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.cli.output import show
from jaxmatch.errors import InputError, nearest

KINDS = ("ray", "slurm")
# The options that need --on slurm.
_OF_SLURM = ("slurm", "status", "collect")


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--status", action="store_true", help="with --on slurm: list the cohorts, their jobs and logs")
    parser.add_argument("--collect", action="store_true", help="with --on slurm: print the table of the finished runs")


@contextlib.contextmanager
def engine_of(arguments: argparse.Namespace) -> Iterator[Any]:
    """Yields the engine that a command line requests; None: this process trains.

    Raises:
      InputError: there is no such engine, the engine is not installed, or another option does not apply to it.
    """
    kind, _, address = (arguments.on or "").partition(":")
    if kind != "slurm" and (given := [name for name in _OF_SLURM if getattr(arguments, name)]):
        raise InputError(f"--{given[0]} needs --on slurm")
    if kind != "ray" and arguments.store is not None:
        raise InputError("--store needs --on ray")
    if arguments.on is None:
        yield None
        return
    if kind not in KINDS:
        raise InputError(f"cohorts cannot be trained on {kind!r}", remedy=nearest(kind, KINDS))
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


def print_status_or_table(arguments: argparse.Namespace, workdir: Path) -> bool:
    """Prints the state of the jobs for --status, or the table of the finished runs for --collect.

    Returns:
      Whether one of these options is given. Nothing is trained then.

    Raises:
      InputError: no jobs were submitted for the folder, some runs are missing for --collect, or both options are given.
    """
    if not (arguments.status or arguments.collect):
        return False
    from jaxmatch.reporting.records import read_sweep_folder
    from jaxmatch.reporting.table import folder_table
    from jaxmatch.sweep import on_slurm
    from jaxmatch.workdir import Workdir

    if arguments.status and arguments.collect:
        raise InputError("--status and --collect cannot be combined", remedy="give one of them")
    if arguments.status:
        show(on_slurm.status(workdir))
        return True
    folder = read_sweep_folder(workdir)
    if folder.records:
        show(folder_table(workdir), end="")
    # A sweep trains runs again that an earlier tuning dropped. Until then, their records are those of the tuning.
    if missing := folder.runs.keys() - Workdir(workdir).finished(folder.runs):
        are = "is" if len(missing) == 1 else "are"
        problem = f"{len(missing)} of {len(folder.runs)} runs {are} missing"
        raise InputError(problem, path=workdir, remedy="see --status")
    return True


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
