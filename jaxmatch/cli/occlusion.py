"""Measure how the accuracy of a trained RE2 changes without one of the features that its alignment layers see.

    jaxmatch occlusion runs/re2_main --data-directory data --output figures
    jaxmatch occlusion runs/re2_main/runs/RUN --data-directory data --output figures

The embedding, the residual and the contextual features (the encoder's output) of each block are set to zero, one at a
time. The change of accuracy is reported for each class in percentage points (Figure 2 of RE2's paper). For a sweep's
folder it is the mean and sample standard deviation over the seeds of each setting. With --output, the changes are kept
as occlusion.json and drawn as occlusion.png and occlusion.svg. For a sweep with several settings the files are called
occlusion-1-SETTING.json and so on. sweeps/re2_occlusion.py trains what the figure needs and runs this analysis.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.cli import splits
from jaxmatch.cli.output import note
from jaxmatch.cli.output import show as show_text
from jaxmatch.cli.paths import check_output_folder, nonempty_path
from jaxmatch.cli.runs import records_of, slug
from jaxmatch.errors import InputError
from jaxmatch.printable import printable_json
from jaxmatch.reporting import FORMATS

if TYPE_CHECKING:
    from jaxmatch.analysis.occlusion_table import Occluded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the --workdir of a sweep, or a run: WORKDIR/runs/NAME"
    )
    parser.add_argument(
        "--split", choices=splits.SPLITS, default="dev", help="split of the data set it was trained on (default: dev)"
    )
    splits.add_directory_argument(parser)
    parser.add_argument("--output", type=nonempty_path, metavar="DIR", help="keep the changes and their figure here")
    parser.add_argument("--format", choices=FORMATS, default="markdown")


def run(arguments: argparse.Namespace) -> None:
    check_output_folder(arguments.output)
    show(arguments.folder, arguments.data_directory, arguments.output, arguments.split, arguments.format)


def show(
    folder: Path, data_directory: str | None, output: Path | None = None, split: str = "dev", format: str = "markdown"
) -> None:
    """Prints the tables of a run, or of each setting of a sweep, and saves the values.

    Arguments:
      folder: the folder of a run or of a sweep.
      data_directory: the folder with the data files, or None for the folder that the runs were trained from.
      output: the folder in which the values and their figures are saved; None: nothing is saved.
      split: the split on which the accuracy is measured.
      format: "markdown", "latex", "csv" or "json".

    Raises:
      InputError: no finished run has RE2's features, the split cannot be read, or matplotlib, which draws the figures,
        is not installed.
    """
    from jaxmatch.analysis.occlusion_table import occlusions
    from jaxmatch.reporting import figures

    sweep = (folder / "runs").is_dir() or (folder / "sweep.json").is_file()
    found = list((_of_sweep if sweep else _of_run)(folder, data_directory, split))
    plain = [plain for plain, _ in found]
    if format == "json":
        show_text(printable_json(plain if sweep else plain[0]))
    else:
        show_text(occlusions([occluded for _, occluded in found], format), end="")
    # The figures come last because they need matplotlib. Without it, the results are still printed.
    for number, values in enumerate(plain if output is not None else [], start=1):
        name = "occlusion" if len(found) == 1 else f"occlusion-{number}-{slug(values['setting'])}"
        figures.write(values, output, name)


def _of_run(folder: Path, data_directory: str | None, split: str) -> Iterator[tuple[dict[str, Any], Occluded]]:
    """Yields the result for a run, as plain values and in the form that a table takes."""
    from jaxmatch.analysis.labeled_pairs import official_split
    from jaxmatch.analysis.occlusion import occlusion
    from jaxmatch.analysis.occlusion_table import Occluded
    from jaxmatch.inference.matcher import load
    from jaxmatch.reporting.records import read_record

    matcher = load(folder)
    found = occlusion(matcher, official_split(folder, matcher, split, data_directory))
    data = f"{matcher.config['data']['name']} {split}"
    records = (read_record(folder / "record.json"),) if (folder / "record.json").exists() else ()
    yield {**found.as_json(), "data": data, "run": folder.resolve().name}, Occluded(found, data, records)


def _of_sweep(folder: Path, data_directory: str | None, split: str) -> Iterator[tuple[dict[str, Any], Occluded]]:
    """Yields the result for each setting of a sweep, over its seeds, in the same two forms as `_of_run`."""
    from jaxmatch.analysis.labeled_pairs import official_split
    from jaxmatch.analysis.occlusion import occlusion, over_seeds
    from jaxmatch.analysis.occlusion_table import Occluded
    from jaxmatch.inference.matcher import load
    from jaxmatch.reporting.records import by_setting, setting_name

    # In a sweep of several models, only RE2 has such features; for a sweep without RE2, `occlusion` raises an error.
    settings = by_setting(records_of(folder))
    settings = [members for members in settings if _is_re2(members[0])] or settings
    if not settings:
        raise InputError("no run has finished", path=folder, remedy="run the sweep again to resume it")
    for members in settings:
        folders = [folder / "runs" / record["run"] for record in members]
        pairs, single = None, []
        for one in folders:
            note(f"occlusion of {one.name}")
            matcher = load(one)
            pairs = pairs or official_split(one, matcher, split, data_directory)
            single.append(occlusion(matcher, pairs))
        found, seeds = over_seeds(single), [record["seed"] for record in members]
        data, setting = f"{matcher.config['data']['name']} {split}", setting_name(members[0])
        plain = {**found.as_json(seeds), "data": data, "setting": setting, "runs": [one.name for one in folders]}
        yield plain, Occluded(found.mean, data, members, setting, found.accuracy_deviation, found.change_deviation)


def _is_re2(record: Mapping[str, Any]) -> bool:
    return record.get("config", {}).get("model", {}).get("name", "re2") == "re2"
