"""Draw the curves of a sweep, or draw a figure again from its values.

    jaxmatch figure runs/quickstart --output figures
    jaxmatch figure runs/depth --against model.stacked_layers --output figures
    jaxmatch figure runs/depth_quora runs/depth_snli --against model.stacked_layers --output figures
    jaxmatch figure figures/attention.json --output figures

For a sweep's folder, the figure shows the dev score of each setting against the pairs seen: the mean over the seeds and
a band of one standard deviation. The values are kept as curves.json and drawn as curves.png and curves.svg. With
--against, it shows the score of the chosen checkpoints against a setting of the grid, with a curve for each combination
of the other settings, in stacked_layers.json and so on. Several folders then share one figure. For a timing's folder,
it shows parameters and times.
"""

import argparse
from pathlib import Path

from jaxmatch.cli.output import show
from jaxmatch.cli.paths import check_output_folder, nonempty_path
from jaxmatch.errors import InputError
from jaxmatch.printable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        type=Path,
        nargs="+",
        metavar="SOURCE",
        help="the --workdir of a sweep or of a timing, or a figure's JSON file",
    )
    parser.add_argument("--against", metavar="SETTING", help="a setting of the grid, such as model.stacked_layers")
    parser.add_argument(
        "--score",
        metavar="SCORE",
        help="with --against: a score such as test.accuracy (default: the one that chose the checkpoints)",
    )
    parser.add_argument("--output", type=nonempty_path, metavar="DIR", required=True, help="folder of the figure")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.cli.runs import records_of
    from jaxmatch.reporting import figures
    from jaxmatch.workdir import TIMING_FILE

    if arguments.score and not arguments.against:
        raise InputError("--score needs --against SETTING")
    check_output_folder(arguments.output)
    source, *more = arguments.sources
    if more and not arguments.against:
        raise InputError(
            "several folders share a figure only with --against SETTING", remedy="add it, or draw each folder by itself"
        )
    if arguments.against:
        records = [record for folder in arguments.sources for record in records_of(folder)]
        values = figures.scores_against(records, arguments.against, arguments.score or "")
        written = figures.write(values, arguments.output, values["axis"].rpartition(".")[2])
    elif (source / TIMING_FILE).is_file():
        written = figures.redraw(source / TIMING_FILE, arguments.output)
    elif source.is_dir():
        written = figures.write(figures.curves(records_of(source)), arguments.output, "curves")
    else:
        written = figures.redraw(source, arguments.output)
    show("\n".join(printable(str(file)) for file in written))
