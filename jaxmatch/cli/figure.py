"""Draw the learning curves of a sweep, or draw a figure again from the values kept beside it.

    jaxmatch figure runs/quickstart --output figures
    jaxmatch figure figures/attention.json --output figures

Of a sweep's folder: the dev score of each setting over the samples seen, as the mean over the seeds and a band of one standard
deviation. The values are kept as curves.json, and drawn as curves.png and curves.svg.
"""

import argparse
from pathlib import Path

HELP = "draw learning curves, or a figure again from its values"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="SOURCE", help="the --workdir of a sweep, or the JSON file of a figure")
    parser.add_argument("--output", type=Path, metavar="DIR", required=True, help="folder of the figure")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.analysis import figures
    from jaxmatch.analysis.curves import curves
    from jaxmatch.cli.runs import records_of

    if arguments.source.is_dir():
        written = figures.write(curves(records_of(arguments.source)), arguments.output, "curves")
    else:
        written = figures.redraw(arguments.source, arguments.output)
    print("\n".join(map(str, written)))
