"""The runs and records of a sweep's folder."""

import argparse
import re
from pathlib import Path
from typing import Any

from jaxmatch.cli.output import note
from jaxmatch.cli.paths import GIVE_WORKDIR, check_folder
from jaxmatch.errors import WAIT_OR_RESUME, InputError
from jaxmatch.printable import count_text

# The most characters of a setting's name in a file name.
_LONGEST_NAME = 60


def slug(setting: str) -> str:
    """Returns the name of a setting in a form for file names."""
    return re.sub(r"[^a-z0-9]+", "-", setting.lower()).strip("-")[:_LONGEST_NAME]


def records_of(directory: Path) -> list[dict[str, Any]]:
    """Reads the records of the runs in a folder, whether the runs finished, diverged or were dropped.

    If the folder has a `sweep.json`, these are the records of the sweep that was started last in it, as in its table.
    Otherwise they are the records of all runs.

    Raises:
      InputError: the folder does not exist or holds no records, or a file is damaged.
    """
    from jaxmatch.reporting.records import read_record, read_sweep_folder

    check_folder(directory)
    if (directory / "sweep.json").exists():
        records = list(read_sweep_folder(directory).records.values())
    else:
        records = [read_record(file) for file in sorted((directory / "runs").glob("[!.]*/record.json"))]
    if not records:
        raise no_runs(directory, "holds no runs of a sweep")
    return records


def no_runs(directory: Path, problem: str) -> InputError:
    """Returns the error about a folder without records: none yet if a sweep was started in it, else `problem`."""
    if (directory / "sweep.json").exists():
        return InputError("no run has finished yet", path=directory, remedy=WAIT_OR_RESUME)
    return InputError(problem, path=directory, remedy=GIVE_WORKDIR)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds RUN and --best, which `chosen_run` reads."""
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="a run's folder, WORKDIR/runs/NAME; with --best the --workdir of a sweep"
    )
    parser.add_argument("--best", action="store_true", help="take the run of a sweep with the best dev score")


def chosen_run(arguments: argparse.Namespace) -> Path:
    """Returns the folder of the run that a command line names. With --best, also prints the run on standard error.

    Raises:
      InputError: as in `best_run`.
    """
    if not arguments.best:
        return arguments.run
    folder, line = best_run(arguments.run)
    note(f"note: {line}")
    return folder


def best_run(directory: Path) -> tuple[Path, str]:
    """Returns the folder of the finished run with the best dev score, and a line of text about the run.

    Raises:
      InputError: the folder has no runs, or no run has finished with a dev score, or the runs cannot be compared
        because they were scored on different data or their checkpoints were chosen by different scores.
    """
    from jaxmatch.reporting.records import best_record, setting_name

    check_folder(directory)
    if not (directory / "runs").is_dir():
        raise no_runs(directory, "has no runs for --best to choose from")
    records = [record for record in records_of(directory) if record["status"] == "finished"]
    try:
        best = best_record(records)
    except InputError as error:
        raise InputError(error.problem, path=directory, remedy=error.remedy) from None
    if best is None:
        raise InputError(
            "no run has finished with a score of dev", path=directory, remedy="name a run: WORKDIR/runs/NAME"
        )
    score = best["selected_on"].removeprefix("dev.")
    line = f"{best['run']} ({setting_name(best)}, seed {best['seed']})"
    line += f" is the best of {count_text(len(records), 'run')} by dev {score}, {best['dev'][score]:.4f}"
    return directory / "runs" / best["run"], line
