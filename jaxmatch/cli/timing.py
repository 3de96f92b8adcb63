"""Measure how fast models predict on the CPU, as the papers do, and print the times next to the papers' times.

    jaxmatch timing sweeps/re2_timing.py --dataset snli --data-directory data --workdir runs/timing
    jaxmatch timing sweeps/re2_timing.py --run runs/snli/runs/RUN --data-directory data
    jaxmatch timing sweeps/esan_timing.py --split none --batches 100

A batch is timed from word ids to probabilities, a split of the data set from texts to labels. Weights are random, which
does not change a time. --run adds a trained model. The times are kept in WORKDIR/timing.json: `jaxmatch table WORKDIR`
prints them again, and `jaxmatch figure WORKDIR --output DIR` draws parameters and times. Run nothing else meanwhile.
"""

import argparse
from pathlib import Path

from jaxmatch.cli import launching, paths, splits, suggestions
from jaxmatch.cli.output import note, show
from jaxmatch.errors import InputError

TAKES_OVERRIDES = TAKES_OPTIONS = True
# The value of --split that needs no data files.
NO_SPLIT = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a timing file or its name: re2_timing, esan_timing")
    parser.add_argument(
        "--workdir", type=paths.nonempty_path, metavar="DIR", help="folder of the record (default: runs/FILE)"
    )
    parser.add_argument(
        "--run", dest="trained", type=Path, metavar="RUN", help="also time a trained model: WORKDIR/runs/NAME"
    )
    parser.add_argument(
        "--split",
        choices=(*splits.SPLITS, NO_SPLIT),
        default="test",
        help="texts to predict; none: no data files (default: test)",
    )
    parser.add_argument(
        "--batches", type=_batches, metavar="N", help="number of batches to time (default: as many as the paper)"
    )
    parser.add_argument(
        "--seeds",
        type=launching.positive,
        metavar="N",
        help="time each model with N random initializations (default: 1)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be timed")
    parser.add_argument("--smoke", action="store_true", help="try it quickly: tiny models, generated data")
    splits.add_directory_argument(parser)


def _batches(text: str) -> int:
    number = launching.positive(text)
    if number < 2:
        raise argparse.ArgumentTypeError("one batch has no standard deviation: give 2 or more")
    return number


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.analysis.labeled_pairs import official_split
    from jaxmatch.inference.matcher import load
    from jaxmatch.reporting.times import times
    from jaxmatch.sweep import inference_times, timing_plan
    from jaxmatch.sweep.files import SWEEPS, find

    with suggestions.suggesting_options(arguments.parser):
        options = launching.parse_file_options(arguments.rest)
    if arguments.data_directory is not None:
        options["data_directory"] = arguments.data_directory
    if arguments.dotted["grid"]:
        raise InputError("a timing has no grid", remedy="change a setting of all models with --config.…")
    counts = {"batches": arguments.batches, "seeds": arguments.seeds}
    with suggestions.suggesting_options(arguments.parser):
        plan = timing_plan.resolve(
            find(arguments.file, (SWEEPS,)),
            options=options,
            overrides=arguments.dotted["config"],
            **counts,
            smoke=arguments.smoke,
        )
    if arguments.dry_run:
        show(timing_plan.plan_text(plan, arguments.split))
        return
    workdir = arguments.workdir or Path("runs") / (arguments.file.stem + "-smoke" * arguments.smoke)
    inference_times.check_timing_folder(workdir, plan)
    trained = None
    if arguments.trained is not None:
        with inference_times.on_the_cpu():
            matcher = load(arguments.trained)
        pairs = None
        if arguments.split != NO_SPLIT:
            pairs = official_split(arguments.trained, matcher, arguments.split, arguments.data_directory)
        trained = inference_times.Trained(f"run {arguments.trained.resolve().name}", matcher, pairs)
    record = inference_times.run(
        plan,
        split=arguments.split,
        trained=trained,
        command=arguments.command_line,
        say=lambda name: note(f"timing {name}"),
    )
    try:
        inference_times.write(record, workdir)
    finally:  # the times took minutes, so they are shown even if they cannot be saved
        show(times(record, "markdown"), end="")
