"""Score the runs of a sweep as ensembles: all seeds of a setting together, by majority vote and by averaged probability.

    jaxmatch ensemble runs/quickstart
    jaxmatch ensemble runs/quickstart --split dev --format json

Each setting with two finished runs or more is one ensemble. Equal votes are decided by the summed probability.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.cli import splits
from jaxmatch.cli.runs import records_of
from jaxmatch.errors import InputError

if TYPE_CHECKING:
    from jaxmatch.analysis.ensemble import EnsembleScores

HELP = "score the seeds of each setting together"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="WORKDIR", help="the --workdir of a sweep")
    parser.add_argument("--split", choices=splits.SPLITS, default="test", help="of the data set (default: test)")
    splits.add_directory_argument(parser)
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.analysis.ensemble import ensemble
    from jaxmatch.matcher import load

    results = []
    for members in _settings(arguments.directory):
        folders = [arguments.directory / "runs" / record["run"] for record in members]
        split = splits.official_split(load(folders[0]), arguments.split, arguments.data_directory)
        results.append((members, len(split), ensemble((load(folder) for folder in folders), split)))
    print(_as_json(results, arguments.split) if arguments.format == "json" else _as_markdown(results, arguments.split))


def _settings(directory: Path) -> list[tuple[Mapping[str, Any], ...]]:
    """The finished runs of each setting that has two or more, in the order of their seeds."""
    from jaxmatch.analysis.settings import by_setting

    found = [members for members in by_setting(records_of(directory)) if len(members) > 1]
    if not found:
        raise InputError("no setting has two finished runs", path=directory, remedy="train more seeds: --seeds N")
    return found


def _as_markdown(results: Iterable[tuple[Sequence[Mapping[str, Any]], int, EnsembleScores]], split: str) -> str:
    from jaxmatch.analysis.settings import setting_name
    from jaxmatch.experiments.tables.formats import Sheet, Text, markdown
    from jaxmatch.experiments.tables.numbers import print_number, score_heading

    def number(name: str, value: float) -> str:
        return print_number(f"{split}.{name}", value) if math.isfinite(value) else "–"

    sections = []
    for members, _, scores in results:
        rows = []
        for name in scores.average:
            alone = [one[name] for one in scores.single]
            spread = f"{number(name, statistics.fmean(alone))} ± {number(name, statistics.stdev(alone))}"
            voted = "–" if scores.vote is None else number(name, scores.vote[name])
            heading = score_heading(f"{split}.{name}")
            rows.append((setting_name(members[0]), str(len(members)), heading, spread, voted, number(name, scores.average[name])))
        sections.append(tuple(tuple(map(Text, row)) for row in rows))
    data = sorted({f"{members[0]['data']['name']} {split}, {pairs:,} pairs" for members, pairs, _ in results})
    sheet = Sheet(
        title="Runs together",
        caption=(
            f"{'; '.join(data)}.",
            "Alone: mean ± sample standard deviation over the runs.",
            "Equal votes are decided by the summed probability.",
        ),
        notes=(),
        headings=("setting", "runs", "score", "alone", "majority vote", "averaged probability"),
        numeric=(False, False, False, True, True, True),
        spans=(),
        sections=tuple(sections),
    )
    return markdown(sheet).rstrip()


def _as_json(results: Iterable[tuple[Sequence[Mapping[str, Any]], int, EnsembleScores]], split: str) -> str:
    def defined(scores: Mapping[str, float] | None) -> dict[str, float | None] | None:
        return scores and {name: value if math.isfinite(value) else None for name, value in scores.items()}

    return json.dumps(
        [
            {
                "variant": members[0]["variant"],
                "overrides": members[0]["overrides"],
                "runs": [record["run"] for record in members],
                "data": f"{members[0]['data']['name']} {split}",
                "pairs": pairs,
                "single": [defined(one) for one in scores.single],
                "vote": defined(scores.vote),
                "average": defined(scores.average),
            }
            for members, pairs, scores in results
        ]
    )
