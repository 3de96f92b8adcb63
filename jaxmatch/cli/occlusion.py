"""Measure what a trained RE2 loses without one of the features that its alignment layers see.

    jaxmatch occlusion runs/re2_snli --data-directory data --output figures
    jaxmatch occlusion runs/re2_snli/runs/RUN --data-directory data --output figures

The embedding, the residual and the contextual features (the encoder's output) of each block are masked to zeros in turn, and the
change of accuracy is reported class by class, in percentage points (Figure 2 of RE2's paper): of one run, or of a sweep's folder, as
mean and sample standard deviation over the seeds of each setting. With --output the changes are kept as occlusion.json, and drawn
as occlusion.png and occlusion.svg; of a sweep with several settings as occlusion-1-SETTING.json and so on.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.cli import splits
from jaxmatch.cli.runs import records_of
from jaxmatch.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from jaxmatch.analysis.occlusion import Occlusion

HELP = "measure what a trained RE2 loses without a feature"
_LONGEST_NAME = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the --workdir of a sweep, or a run: WORKDIR/runs/NAME")
    parser.add_argument("--split", choices=splits.SPLITS, default="dev", help="of the data set it was trained on (default: dev)")
    splits.add_directory_argument(parser)
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep the changes and their figure here")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")


def run(arguments: argparse.Namespace) -> None:
    sweep = (arguments.folder / "runs").is_dir()
    found = list(_of_sweep(arguments) if sweep else _of_run(arguments))
    if arguments.format == "json":
        plain = [plain for plain, _ in found]
        print(json.dumps(plain if sweep else plain[0]))
    else:
        print("\n\n".join(table for _, table in found))
    if arguments.output is not None:
        from jaxmatch.analysis import figures

        for number, (plain, _) in enumerate(found, start=1):
            name = "occlusion" if len(found) == 1 else f"occlusion-{number}-{_slug(plain['setting'])}"
            figures.write(plain, arguments.output, name)


def _of_run(arguments: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """What was found, as plain values and as a table."""
    from jaxmatch.analysis.occlusion import occlusion
    from jaxmatch.matcher import load

    matcher = load(arguments.folder)
    found = occlusion(matcher, splits.official_split(matcher, arguments.split, arguments.data_directory))
    data = f"{matcher.config['data']['name']} {arguments.split}"
    plain = {**found.as_json(), "data": data, "run": arguments.folder.resolve().name}
    yield plain, _table(found, None, None, data)


def _of_sweep(arguments: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """The same of each setting, over its seeds."""
    from jaxmatch.analysis.occlusion import occlusion, over_seeds
    from jaxmatch.analysis.settings import by_setting, setting_name
    from jaxmatch.matcher import load

    # In a sweep of several models, RE2 is the one that has such features; a sweep without any is told so by `occlusion`.
    settings = by_setting(records_of(arguments.folder))
    settings = [members for members in settings if _is_re2(members[0])] or settings
    if not settings:
        raise InputError("no run has finished", path=arguments.folder, remedy="run the sweep again to go on")
    for members in settings:
        folders = [arguments.folder / "runs" / record["run"] for record in members]
        split, single = None, []
        for folder in folders:
            print(f"occlusion of {folder.name}", file=sys.stderr)
            matcher = load(folder)
            split = split or splits.official_split(matcher, arguments.split, arguments.data_directory)
            single.append(occlusion(matcher, split))
        found, seeds = over_seeds(single), [record["seed"] for record in members]
        data, setting = f"{matcher.config['data']['name']} {arguments.split}", setting_name(members[0])
        plain = {**found.as_json(seeds), "data": data, "setting": setting, "runs": [folder.name for folder in folders]}
        about = f"Mean ± sample standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else "One seed"
        about += f"; setting: {setting}"
        yield plain, _table(found.mean, (found.accuracy_deviation, found.change_deviation), about, data)


def _is_re2(record: Mapping[str, Any]) -> bool:
    return record.get("config", {}).get("model", {}).get("name", "re2") == "re2"


def _slug(name: str) -> str:
    """A setting's name as part of a file's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_NAME]


def _table(found: Occlusion, deviations: tuple[np.ndarray, np.ndarray] | None, about: str | None, data: str) -> str:
    from jaxmatch.analysis.occlusion import FEATURES
    from jaxmatch.experiments.tables.formats import Sheet, Text, markdown

    def percent(values: np.ndarray, spreads: np.ndarray | None, style: str) -> Iterator[Text]:
        for number, value in enumerate(values):
            text = format(100 * value, style) if math.isfinite(value) else "–"
            spread = math.nan if spreads is None else spreads[number]
            yield Text(f"{text} ± {100 * spread:.1f}" if math.isfinite(spread) else text)

    of_accuracy, of_change = deviations or (None, None)
    sections = [((Text("–"), Text("nothing"), *percent(found.accuracy, of_accuracy, ".1f")),)]
    for block, changes in enumerate(found.change):
        sections.append(
            tuple(
                (
                    Text(str(block + 1)),
                    Text(feature),
                    *percent(changes[number], None if of_change is None else of_change[block, number], "+z.1f"),
                )
                for number, feature in enumerate(FEATURES)
            )
        )
    counts = ", ".join(f"{pairs:,} {label}" for label, pairs in zip(found.labels, found.pairs.tolist(), strict=True))
    what = f"Accuracy of each class (%) and its change in points when a feature of a block is masked; {data} ({counts} pairs)."
    sheet = Sheet(
        title="Occlusion sensitivity",
        caption=(what, f"{about}.") if about else (what,),
        notes=(),
        headings=("block", "masked", *found.labels),
        numeric=(True, False, *(True for _ in found.labels)),
        spans=(),
        sections=tuple(sections),
    )
    return markdown(sheet).rstrip()
