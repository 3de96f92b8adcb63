"""Score a trained run on its data set, or on a file of your own.

    jaxmatch evaluate runs/quickstart/runs/RUN --split dev
    jaxmatch evaluate runs/quickstart/runs/RUN --input pairs.tsv

A file has the format of training data: TSV with the header `text_a text_b label` (and `group` for a ranking), or JSON
lines with these keys.
"""

import argparse
from pathlib import Path

from jaxmatch.cli import splits
from jaxmatch.cli.output import show
from jaxmatch.printable import printable, printable_json, without_nan

HELP = "score a run on dev, test or a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder: WORKDIR/runs/NAME")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--split", choices=splits.SPLITS, default="test", help="split of the data set it was trained on (default: test)"
    )
    what.add_argument("--input", type=Path, metavar="FILE", help="score this file instead: .tsv or .jsonl, with labels")
    splits.add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.analysis.scoring import score_split
    from jaxmatch.inference.matcher import load

    matcher = load(arguments.run)
    if arguments.input is not None:
        split, name = splits.own_file(matcher, arguments.input), str(arguments.input)
    else:
        split = splits.official_split(arguments.run, matcher, arguments.split, arguments.data_directory)
        name = f"{matcher.config['data']['name']} {arguments.split}"
    scores = score_split(matcher, split)
    if arguments.format == "json":
        show(
            printable_json(
                {"run": str(arguments.run), "data": name, "pairs": len(split), "scores": without_nan(scores)}
            )
        )
    else:
        show(f"{printable(name)}: {len(split):,} pair{'s' * (len(split) != 1)}")
        width = max(map(len, scores))
        for key, value in scores.items():
            show(f"{key:<{width}}  {value:.4f}")
