"""The options that `sweep`, `train` and `tune` share, and the call of a launcher with these options."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from jaxmatch.cli import distributed, engine_options, own_data, paths, suggestions
from jaxmatch.cli.output import note, show
from jaxmatch.config.settings import OWN_LAYOUT
from jaxmatch.errors import InputError, UnknownOption

# Option of the command -> the setting that it is short for.
SHORT = {"epochs": "training.epochs", "learning_rate": "optimizer.learning_rate", "batch_size": "training.batch_size"}
INTERRUPTED = "interrupted; run the same command to resume"


def positive(text: str) -> int:
    """Parses a whole number from 1 on, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def _folder(text: str) -> Path:
    """Parses the path of a folder on this machine, for argparse."""
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text} is not a local folder; give it as --store, with --on ray")
    return paths.nonempty_path(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that follow the file."""
    parser.add_argument(
        "--workdir",
        type=_folder,
        metavar="DIR",
        help="folder of runs and records (default: runs/NAME of the file; for train, followed by the values of its "
        "options: runs/re2_snli)",
    )
    parser.add_argument("--seeds", type=positive, metavar="N", help="number of seeds, counted from the file's first")
    for name, setting in SHORT.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=f"short for --config.{setting}=VALUE")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, on standard error, and train nothing")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="try it quickly: a tiny model, a few steps, generated data (default folder: runs/NAME-smoke)",
    )
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="NAME",
        help="follow the runs: tensorboard, or a listener of your own as module:Class or file.py:Class",
    )
    parser.add_argument(
        "--data-directory",
        metavar="DIR",
        help="folder with the data files (default for public data sets: $JAXMATCH_DATA)",
    )
    parser.add_argument(
        "--vectors", metavar="FILE", help="word vectors, as text or word2vec's .bin, also as .gz or .zip; or hashed"
    )
    own_data.add_arguments(parser)
    engine_options.add_arguments(parser)
    distributed.add_arguments(parser)


def add_floors_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --floors. `tune` does not have it, because its tables are for choosing a setting."""
    parser.add_argument(
        "--floors",
        metavar="NAMES",
        help="simple baselines to show below the runs: all, none, or some of majority, overlap, cosine, tfidf and (for "
        "rankings) bm25, separated by commas; tfidf needs pip install 'jaxmatch[floors]' (default: those of the file)",
    )


def parse_file_options(words: Sequence[str]) -> dict[str, str]:
    """Parses the options that only the launched file knows, as `--name=value` or `--name value`.

    Raises:
      InputError: a word is not an option, or an option has no value.
    """
    from jaxmatch.sweep.files import OF_THE_DATA

    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if not option.startswith("--") or not option[2:].replace("-", "_").isidentifier():
            raise UnknownOption(f"{word!r} is not an option", option=word, remedy="see jaxmatch sweep --help")
        if not equals:
            value = next(rest, None)
            value = None if value is not None and value.startswith("--") else value
        if value is None:
            raise UnknownOption(
                f"{option} is not an option of the command, or has no value",
                option=option,
                remedy="see jaxmatch sweep --help",
            )
        if (dashed := option.replace("_", "-")) != option and option[2:] in OF_THE_DATA:
            raise InputError(f"{option} is not an option", remedy=f'did you mean "{dashed}"?')
        options[option[2:].replace("-", "_")] = value
    return options


def settings_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns dotted name -> value for the settings that --config and the options of `SHORT` change.

    Raises:
      InputError: a setting is given in two ways.
    """
    from jaxmatch.sweep.files import OF_THE_DATA

    settings = dict(arguments.dotted["config"])
    for name, setting in (SHORT | OF_THE_DATA).items():
        value = getattr(arguments, name)
        if value is None:
            continue
        for kind in ("config", "grid"):
            if setting in arguments.dotted[kind]:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} and --{kind}.{setting} are the same setting", remedy="give one of them")
        if name in SHORT:
            settings[setting] = value
    return settings


def workdir_of(arguments: argparse.Namespace) -> Path:
    """Returns --workdir, or runs/NAME by default. NAME is the name of the file; --smoke adds "-smoke" to it.

    For `train`, the values of the file's options are added to the name: runs/re2_snli.
    """
    name = arguments.file.stem
    if arguments.subcommand == "train":
        name = "_".join((name, *parse_file_options(arguments.rest).values()))
    return arguments.workdir or Path("runs") / (name + "-smoke" * arguments.smoke)


def launch(function: Callable[..., str], arguments: argparse.Namespace, kinds: Sequence[str]) -> bool:
    """Calls a launcher and prints the table that it returns. If runs failed, prints the table of the others.

    Arguments:
      function: the launcher, such as `jaxmatch.sweep.launch.sweep`. Its first argument is the file.
      arguments: the arguments of the command.
      kinds: the kinds of files among which a name is looked up (sweep/files.py).

    Returns:
      Whether all requested runs are trained.

    Raises:
      InputError: no file has this name, or the request cannot be carried out.
      FailedCohorts: some runs failed.
    """
    from jaxmatch.sweep.engines import Submitted
    from jaxmatch.sweep.failures import FailedCohorts
    from jaxmatch.sweep.files import find

    with suggestions.suggesting_options(arguments.parser):
        options = parse_file_options(arguments.rest)
    for name in ("data_directory", "vectors", *OWN_LAYOUT):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    try:
        with engine_options.engine_of(arguments) as engine, suggestions.suggesting_options(arguments.parser):
            if engine_options.print_status_or_table(arguments, workdir_of(arguments)):
                return arguments.collect
            text = function(
                find(arguments.file, kinds),
                workdir=workdir_of(arguments),
                seeds=arguments.seeds,
                dry_run=arguments.dry_run,
                overrides=settings_of(arguments),
                grid_overrides=arguments.dotted["grid"],
                options=options,
                smoke=arguments.smoke,
                command=arguments.command_line,
                log=arguments.log,
                engine=engine,
                **({"floors": arguments.floors} if "floors" in arguments else {}),
            )
    except FailedCohorts as failed:
        if failed.table:
            show(failed.table, end="")
        raise
    except Submitted as submitted:
        note(f"{submitted}; --status lists them, --collect makes the table")
        return False
    if text:
        show(text, end="")
    return not arguments.dry_run
