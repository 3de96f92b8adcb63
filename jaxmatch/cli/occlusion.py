"""Measure what a trained RE2 loses without one of the features that its alignment layers see.

    jaxmatch occlusion runs/re2_snli/runs/RUN --data-directory data --output figures

The embedding, the residual and the contextual features (the encoder's output) of each block are masked to zeros in turn, and the
change of accuracy is reported class by class, in percentage points (Figure 2 of RE2's paper). With --output the changes are kept
as occlusion.json, and drawn as occlusion.png and occlusion.svg.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from jaxmatch.cli import splits

if TYPE_CHECKING:
    from jaxmatch.analysis.occlusion import Occlusion

HELP = "measure what a trained RE2 loses without a feature"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder: WORKDIR/runs/NAME")
    parser.add_argument("--split", choices=splits.SPLITS, default="dev", help="of the data set it was trained on (default: dev)")
    splits.add_directory_argument(parser)
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep the changes and their figure here")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.analysis import figures
    from jaxmatch.analysis.occlusion import occlusion
    from jaxmatch.matcher import load

    matcher = load(arguments.run)
    split = splits.official_split(matcher, arguments.split, arguments.data_directory)
    found = occlusion(matcher, split)
    data = f"{matcher.config['data']['name']} {arguments.split}"
    plain = {**found.as_json(), "data": data, "run": arguments.run.resolve().name}
    print(json.dumps(plain) if arguments.format == "json" else _table(found, data))
    if arguments.output is not None:
        figures.write(plain, arguments.output, "occlusion")


def _table(found: Occlusion, data: str) -> str:
    from jaxmatch.analysis.occlusion import FEATURES
    from jaxmatch.experiments.tables.formats import Sheet, Text, markdown

    def percent(value: float, style: str) -> str:
        return format(100 * value, style) if math.isfinite(value) else "–"

    sections = [((Text("–"), Text("nothing"), *(Text(percent(share, ".1f")) for share in found.accuracy)),)]
    for number, block in enumerate(found.change, start=1):
        sections.append(
            tuple(
                (Text(str(number)), Text(feature), *(Text(percent(change, "+.1f")) for change in changes))
                for feature, changes in zip(FEATURES, block, strict=True)
            )
        )
    counts = ", ".join(f"{pairs:,} {label}" for label, pairs in zip(found.labels, found.pairs.tolist(), strict=True))
    sheet = Sheet(
        title="Occlusion sensitivity",
        caption=(f"Accuracy of each class (%) and its change in points when a feature of a block is masked; {data} ({counts} pairs).",),
        notes=(),
        headings=("block", "masked", *found.labels),
        numeric=(True, False, *(True for _ in found.labels)),
        spans=(),
        sections=tuple(sections),
    )
    return markdown(sheet).rstrip()
