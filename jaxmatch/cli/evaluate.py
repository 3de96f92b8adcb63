"""Score a trained run on its data set, or on a file of your own.

    jaxmatch evaluate runs/quickstart/runs/RUN --split dev
    jaxmatch evaluate runs/quickstart/runs/RUN --input pairs.tsv
    jaxmatch evaluate runs/quickstart/runs/RUN --input pairs.csv.gz --columns text_a=question1,text_b=question2

If the run is calibrated (`jaxmatch calibrate`), there are two columns, without and with its temperature and threshold.

A file has a format of training data: CSV, TSV, JSON lines or Parquet, each also with gzip. Its columns and labels have
the names that they had in training, unless --columns and --labels say otherwise.
"""

import argparse

from jaxmatch.cli import own_data, splits
from jaxmatch.cli.calibrate import show_before_and_after
from jaxmatch.cli.output import show
from jaxmatch.cli.runs import add_run_arguments, chosen_run
from jaxmatch.printable import count_text, printable, printable_json, without_nan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--split", choices=splits.SPLITS, default="test", help="split of the data set it was trained on (default: test)"
    )
    splits.add_file_argument(what, "score this file instead: as training data, with labels")
    own_data.add_layout_arguments(parser)
    splits.add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.analysis.scoring import label_numbers, pairs_of, score_outputs
    from jaxmatch.inference.matcher import load

    folder = chosen_run(arguments)
    matcher = load(folder)
    split, name = splits.requested_pairs(arguments, folder, matcher, arguments.split)
    numbers = label_numbers(matcher, split)  # a wrong label is found before the work is done
    logits = matcher.logits(pairs_of(split))
    scores, calibrated = score_outputs(matcher, split, logits), None
    if matcher.calibration is not None:
        from jaxmatch.inference.calibration import Calibration, quality

        decisive = matcher.calibration.decisive(logits, matcher.labels)
        calibrated = score_outputs(matcher, split, decisive) | quality(
            matcher.calibration, logits, numbers, matcher.labels
        )
        as_trained = Calibration(positive=matcher.calibration.positive)
        scores |= quality(as_trained, logits, numbers, matcher.labels)
    if arguments.format == "json":
        found = {"run": str(folder), "data": name, "pairs": len(split), "scores": without_nan(scores)}
        show(printable_json(found if calibrated is None else found | {"calibrated": without_nan(calibrated)}))
        return
    show(f"{printable(name)}: {count_text(len(split), 'pair')}")
    if calibrated is not None:
        show_before_and_after(scores, calibrated)
        return
    width = max(map(len, scores))
    for key, value in scores.items():
        show(f"{key:<{width}}  {value:.4f}")
