"""Commands for results: table, report, figure, timing; and the list of configs and sweeps."""

import argparse
from pathlib import Path

from jaxmatch.cli.common import (
    SPLITS,
    add_directory_argument,
    check_folder,
    check_output,
    check_output_folder,
    nonempty_path,
    note,
    open_whole,
    positive,
    show,
    suggesting_options,
)
from jaxmatch.errors import InputError, printable
from jaxmatch.reporting import FORMATS


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --workdir of a sweep or of a timing")
    parser.add_argument("--format", choices=FORMATS, default="markdown")


def table(arguments: argparse.Namespace) -> None:
    """Print the table of a sweep's or a timing's working folder from its records. Nothing is trained or timed."""
    from jaxmatch.reporting.table import folder_table
    from jaxmatch.workdir import TIMING_FILE

    check_folder(arguments.directory, "give the --workdir of a sweep or of a timing")
    file = arguments.directory / TIMING_FILE
    if file.is_file():
        from jaxmatch.papers.timing import read_times, times  # imports JAX

        show(times(read_times(file), arguments.format), end="")
    else:
        show(folder_table(arguments.directory, arguments.format), end="")


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --workdir of a sweep or of a tuning")
    parser.add_argument(
        "--output", metavar="FILE", help='file of the page (default: DIR/report.html; "-": standard output)'
    )


def report(arguments: argparse.Namespace) -> None:
    """Write one HTML page about a sweep's working folder: verdict, table, mistakes, failures, learning curves and plan.

    The page needs no other file and no network. Nothing is trained. The page of an unfinished sweep shows what is there
    so far.
    """
    from jaxmatch.reporting.report import report

    check_folder(arguments.directory)
    output = str(arguments.directory / "report.html") if arguments.output is None else arguments.output
    check_output(output, arguments.directory)
    page = report(arguments.directory).encode()
    with open_whole(output) as file:
        file.write(page)
    if output != "-":
        show(output)


def add_figure_arguments(parser: argparse.ArgumentParser) -> None:
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


def figure(arguments: argparse.Namespace) -> None:
    """Draw the curves of a sweep, or draw a figure again from its values.

        jaxmatch figure runs/quickstart --output figures
        jaxmatch figure runs/depth --against model.stacked_layers --output figures
        jaxmatch figure runs/depth_quora runs/depth_snli --against model.stacked_layers --output figures
        jaxmatch figure figures/attention.json --output figures

    For a sweep's folder, the figure shows the dev score of each setting against the pairs seen: the mean over the seeds
    and a band of one standard deviation. The values are kept as curves.json and drawn as curves.png and curves.svg.
    With --against, it shows the score of the chosen checkpoints against a setting of the grid, with a curve for each
    combination of the other settings, in stacked_layers.json and so on. Several folders then share one figure. For a
    timing's folder, it shows parameters and times.
    """
    from jaxmatch.cli.common import records_of
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


# The value of --split that needs no data files.
NO_SPLIT = "none"


def add_timing_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a timing file or its name: re2_timing, esan_timing")
    parser.add_argument(
        "--workdir", type=nonempty_path, metavar="DIR", help="folder of the record (default: runs/FILE)"
    )
    parser.add_argument(
        "--run", dest="trained", type=Path, metavar="RUN", help="also time a trained model: WORKDIR/runs/NAME"
    )
    parser.add_argument(
        "--split",
        choices=(*SPLITS, NO_SPLIT),
        default="test",
        help="texts to predict; none: no data files (default: test)",
    )
    parser.add_argument(
        "--batches", type=_batches, metavar="N", help="number of batches to time (default: as many as the paper)"
    )
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="time each model with N random initializations (default: 1)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be timed")
    parser.add_argument("--smoke", action="store_true", help="try it quickly: tiny models, generated data")
    add_directory_argument(parser)


def _batches(text: str) -> int:
    number = positive(text)
    if number < 2:
        raise argparse.ArgumentTypeError("one batch has no standard deviation: give 2 or more")
    return number


def timing(arguments: argparse.Namespace) -> None:
    """Measure how fast models predict on the CPU, as the papers do, and print the times next to the papers' times.

        jaxmatch timing sweeps/re2_timing.py --dataset snli --data-directory data --workdir runs/timing
        jaxmatch timing sweeps/re2_timing.py --run runs/snli/runs/RUN --data-directory data
        jaxmatch timing sweeps/esan_timing.py --split none --batches 100

    A batch is timed from word ids to probabilities, a split of the data set from texts to labels. Weights are random,
    which does not change a time. --run adds a trained model. The times are kept in WORKDIR/timing.json: `jaxmatch table
    WORKDIR` prints them again, and `jaxmatch figure WORKDIR --output DIR` draws parameters and times. Run nothing else
    meanwhile.
    """
    import jax

    from jaxmatch.analysis.evaluate import official_split
    from jaxmatch.cli.train import parse_file_options
    from jaxmatch.devices import available_devices
    from jaxmatch.files import write_json
    from jaxmatch.inference.matcher import load
    from jaxmatch.papers import timing
    from jaxmatch.sweep.files import SWEEPS, find
    from jaxmatch.workdir import TIMING_FILE

    with suggesting_options(arguments.parser):
        options = parse_file_options(arguments.rest)
    if arguments.data_directory is not None:
        options["data_directory"] = arguments.data_directory
    if arguments.dotted["grid"]:
        raise InputError("a timing has no grid", remedy="change a setting of all models with --config.…")
    counts = {"batches": arguments.batches, "seeds": arguments.seeds}
    with suggesting_options(arguments.parser):
        plan = timing.resolve(
            find(arguments.file, (SWEEPS,)),
            options=options,
            overrides=arguments.dotted["config"],
            **counts,
            smoke=arguments.smoke,
        )
    if arguments.dry_run:
        show(timing.plan_text(plan, arguments.split))
        return
    workdir = arguments.workdir or Path("runs") / (arguments.file.stem + "-smoke" * arguments.smoke)
    timing.check_timing_folder(workdir, plan)
    trained = None
    with jax.default_device(available_devices("cpu")[0]):  # even if there is an accelerator
        if arguments.trained is not None:
            matcher, pairs = load(arguments.trained), None
            if arguments.split != NO_SPLIT:
                pairs = official_split(arguments.trained, matcher, arguments.split, arguments.data_directory)
            trained = (f"run {arguments.trained.resolve().name}", matcher, pairs)
        record = timing.run(
            plan,
            split=arguments.split,
            trained=trained,
            command=arguments.command_line,
            say=lambda name: note(f"timing {name}"),
        )
    try:
        write_json(workdir / TIMING_FILE, record)
    finally:  # the times took minutes, so they are shown even if they cannot be saved
        show(timing.times(record, "markdown"), end="")


def add_configs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="show where this file is (default: list all)")
    parser.add_argument("--copy", action="store_true", help="write the file to the current folder, as NAME.py")


def configs(arguments: argparse.Namespace) -> None:
    """List the configs and sweeps that come with the package, or copy one to edit.

        jaxmatch configs
        jaxmatch configs quickstart --copy

    A name takes the place of a file: `jaxmatch sweep quickstart`, `jaxmatch train re2 --dataset sick`. A file in
    configs/ or sweeps/ of the current folder goes before the package's.
    """
    from jaxmatch.sweep.files import CONFIGS, SWEEPS, config_file, files, find, title

    if arguments.name is None:
        if arguments.copy:
            raise InputError("--copy needs the name of a file", remedy="jaxmatch configs lists them")
        for kind, use in (
            (CONFIGS, "jaxmatch train NAME"),
            (SWEEPS, "jaxmatch sweep NAME; of a timing: jaxmatch timing NAME"),
        ):
            show(f"{kind} ({use})")
            known = files(kind)
            width = max(map(len, known), default=0)
            for name, file in known.items():
                show(f"  {name:<{width}}  {printable(title(file))}")
        return
    file, options = config_file(find(arguments.name, (SWEEPS, CONFIGS)))
    if not file.is_file():
        raise InputError("there is no such file", path=file, remedy="jaxmatch configs lists them")
    if not arguments.copy:
        show(printable(str(file)))
        return
    target = Path(file.name)
    text = file.read_bytes()
    try:
        with target.open("xb") as copy:
            copy.write(text)
    except FileExistsError:
        problem, remedy = "there is such a file already", "remove it, or copy in another folder"
        raise InputError(problem, path=target, remedy=remedy) from None
    command = "train" if file.stem in files(CONFIGS) else "timing" if file.stem.endswith("_timing") else "sweep"
    words = ["jaxmatch", command, str(target), *(f"--{name} {value}" for name, value in options.items())]
    show(f"{target} is written; run it with: {' '.join(words)}")
