"""Commands for results: table, report, figure, timing; and the list of configs and sweeps."""

import argparse
import shutil
from functools import partial
from pathlib import Path

from jaxmatch.cli import common
from jaxmatch.errors import InputError, printable
from jaxmatch.reporting import FORMATS


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the --workdir of a sweep or of a timing")
    add("--format", choices=FORMATS, default="markdown")
    add("--output", default="-", metavar="FILE", help="write the table to this file, with all that --verbose adds")
    add("--verbose", action="store_true", help="print below the caption also how the numbers came about, and the notes")


def table(arguments: argparse.Namespace) -> None:
    """Print the table of a sweep's or a timing's working folder from its records. Nothing is trained or timed.

    The verdict on a sweep follows, on standard error: whether its best setting is worth using, and which run to use.
    """
    from jaxmatch.reporting.table import folder_table
    from jaxmatch.workdir import TIMING_FILE

    file, output = arguments.directory / TIMING_FILE, arguments.output
    how = arguments.format, arguments.verbose or output != "-"
    with common.open_whole(output) as written:
        if file.is_file():
            from jaxmatch.papers.timing import read_times, times  # imports JAX

            text = times(read_times(file), *how)
        else:
            text = folder_table(arguments.directory, *how)
        written.write(text.encode())
    if arguments.format == "markdown" and not file.is_file():
        common.note_verdict(arguments.directory)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the --workdir of a sweep or of a tuning")
    add("--output", metavar="FILE", help='file of the page (default: DIR/report.html; "-": standard output)')


def report(arguments: argparse.Namespace) -> None:
    """Write one HTML page about a sweep's working folder: verdict, table, mistakes, failures, learning curves and plan.

    The page needs no other file and no network. That of an unfinished sweep shows what is there so far.
    """
    from jaxmatch.reporting.report import report

    output = arguments.output or str(arguments.directory / "report.html")
    with common.open_whole(output) as file:
        file.write(report(arguments.directory).encode())
    if output != "-":
        common.show(output)


def add_figure_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sources", type=Path, nargs="+", metavar="SOURCE", help="folder of a sweep or timing, or a figure's JSON file")
    add("--against", metavar="SETTING", help="a setting of the grid, such as model.stacked_layers")
    add("--score", help="with --against: a score such as test.accuracy (default: the one that chose the checkpoints)")
    add("--dark", action="store_true", help="for a dark background: the names end in -dark")
    add("--output", type=common.folder_of, metavar="DIR", required=True, help="folder of the figure")


def figure(arguments: argparse.Namespace) -> None:
    """Draw the curves of a sweep, or draw a figure again from its values.

        jaxmatch figure runs/quickstart --output figures
        jaxmatch figure runs/depth_quora runs/depth_snli --against model.stacked_layers --output figures
        jaxmatch figure figures/attention.json --output figures

    Of a sweep, the figure shows the dev score of each setting against the pairs seen, as mean and standard deviation
    over the seeds up to the first one that stopped; of a timing, parameters and times. With --against, it shows the
    score of the chosen checkpoints against a setting of the grid, with a curve for each combination of the other
    settings. Several folders then share one figure.
    """
    from jaxmatch.reporting import figures
    from jaxmatch.reporting.records import records_of
    from jaxmatch.workdir import TIMING_FILE

    source = arguments.sources[0]
    if arguments.against:
        records = [record for folder in arguments.sources for record in records_of(folder)]
        values = figures.scores_against(records, arguments.against, arguments.score or "")
        written = figures.write(values, arguments.output, values["axis"].rpartition(".")[2], arguments.dark)
    elif arguments.score or len(arguments.sources) > 1:
        raise InputError("--score and several sources need --against SETTING")
    elif source.is_dir() and not (source / TIMING_FILE).is_file():
        written = figures.write(figures.curves(records_of(source)), arguments.output, "curves", arguments.dark)
    else:
        written = figures.redraw(source / TIMING_FILE if source.is_dir() else source, arguments.output, arguments.dark)
    common.show("\n".join(printable(str(file)) for file in written))


def add_timing_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a timing file or its name: re2_timing, esan_timing")
    add("--workdir", type=common.folder_of, metavar="DIR", help="folder of the record (default: runs/FILE)")
    add("--split", choices=(*common.SPLITS, "none"), default="test", help="texts to predict, or none (default: test)")
    add("--batches", type=partial(common.whole_number, least=2), metavar="N", help="how many (default: as the paper)")
    add("--dry-run", action="store_true", help="show what would be timed")
    add("--smoke", action="store_true", help="try it quickly: tiny models, generated data")
    common.add_directory_argument(parser)


def timing(arguments: argparse.Namespace) -> None:
    """Measure how fast models predict on the CPU, as the papers do, and print the times next to the papers' times.

        jaxmatch timing sweeps/re2_timing.py --dataset snli --data-directory data --workdir runs/timing
        jaxmatch timing sweeps/esan_timing.py --split none --batches 100

    A batch is timed from word ids to probabilities, a split of the data set from texts to labels. Weights are random,
    which does not change a time. Run nothing else meanwhile. The times are kept in WORKDIR/timing.json, for `jaxmatch
    table WORKDIR` and `jaxmatch figure WORKDIR --output DIR`.
    """
    import jax

    from jaxmatch.devices import available_devices
    from jaxmatch.files import write_json
    from jaxmatch.papers import timing
    from jaxmatch.sweep.files import SWEEPS, find
    from jaxmatch.workdir import TIMING_FILE, check_usable

    plan = timing.resolve(
        find(arguments.file, (SWEEPS,)),
        options=arguments.options | common.given(arguments, ("data_directory",)),
        overrides=arguments.dotted["config"],
        batches=arguments.batches,
        smoke=arguments.smoke,
    )
    if arguments.dry_run:
        common.show(timing.plan_text(plan, arguments.split))
        return
    workdir = arguments.workdir or Path("runs") / (arguments.file.stem + "-smoke" * arguments.smoke)
    check_usable(workdir, TIMING_FILE, plan.sweep.name)
    with jax.default_device(available_devices("cpu")[0]):  # even if there is an accelerator
        record = timing.run(
            plan,
            split=arguments.split,
            command=arguments.command_line,
            say=lambda name: common.note(f"timing {name}"),
        )
    try:
        write_json(workdir / TIMING_FILE, record)
    finally:  # the times took minutes, so they are shown even if they cannot be saved
        common.show(timing.times(record, "markdown"), end="")


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
        uses = {CONFIGS: "jaxmatch train NAME", SWEEPS: "jaxmatch sweep NAME; of a timing: jaxmatch timing NAME"}
        for kind, use in uses.items():
            known = files(kind)
            width = max(map(len, known), default=0)
            common.show(f"{kind} ({use})")
            for name, file in known.items():
                common.show(f"  {name:<{width}}  {printable(title(file))}")
        return
    file, options = config_file(find(arguments.name, (SWEEPS, CONFIGS)))
    if not arguments.copy:
        common.show(printable(str(file)))
        return
    target = Path(file.name)
    if target.exists():
        raise InputError("there is such a file already", path=target, remedy="remove it, or copy in another folder")
    shutil.copyfile(file, target)
    command = "train" if file.stem in files(CONFIGS) else "timing" if file.stem.endswith("_timing") else "sweep"
    words = ["jaxmatch", command, str(target), *(f"--{name} {value}" for name, value in options.items())]
    common.show(f"{target} is written; run it with: {' '.join(words)}")
