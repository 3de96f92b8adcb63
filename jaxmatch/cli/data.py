"""Commands for data and devices: data fetch, data check, devices."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxmatch.cli.common import add_own_data_arguments, layout_settings, note, show
from jaxmatch.errors import InputError, printable


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_fetch_parser(actions)
    check = actions.add_parser(
        "check", help="counts, labels, lengths, vocabulary coverage and problems", allow_abbrev=False
    )
    check.add_argument("name", metavar="NAME", help='such as "snli", "wikiqa", "embedded_inference", or "own"')
    check.add_argument(
        "--data-directory",
        metavar="DIR",
        help="folder with the data files (default for public data sets: $JAXMATCH_DATA)",
    )
    check.add_argument("--task", default="", help='task of "own" data: classification, regression or ranking')
    add_own_data_arguments(check)
    check.add_argument(
        "--vectors", default="", metavar="FILE", help="word vectors, whose coverage is reported; or hashed"
    )
    check.add_argument(
        "--tokenizer", default="word", help="word (default), whitespace, characters, tweet or tweet_split"
    )
    check.add_argument("--keep-case", action="store_true", help="do not lower-case")
    check.add_argument("--keep-punctuation", action="store_true", help="keep tokens that are pure punctuation")
    check.add_argument(
        "--minimum-count",
        type=int,
        default=5,
        metavar="N",
        help="keep words without a vector that occur at least N times",
    )
    check.add_argument("--maximum-length", type=int, default=0, metavar="N", help="cut texts to N tokens (0: no limit)")
    check.add_argument(
        "--truncation-side", default="right", metavar="SIDE", help="right (default): cut at the end of a text; or left"
    )

    check.set_defaults(act=_check)


def data(arguments: argparse.Namespace) -> None:
    """Fetch published data, and look at data before training on it.

        jaxmatch data fetch                                            # lists what can be fetched
        jaxmatch data fetch snli glove.840B --data-directory ~/data
        jaxmatch data check snli --data-directory ~/data

    `fetch` downloads releases from their owners, or from a mirror, and unpacks them. `check` shows counts, labels,
    lengths, how many words have a vector, and problems such as pairs that occur in two splits.
    """
    arguments.act(arguments)


def _check(arguments: argparse.Namespace) -> None:
    from jaxmatch.config.settings import OWN_LAYOUT, DataConfig
    from jaxmatch.config.settings import check as check_settings
    from jaxmatch.data.catalog import data_directory, vectors_file
    from jaxmatch.data.data_check import check
    from jaxmatch.data.encoding import DataSettings

    if arguments.split_seed is not None and arguments.split is None:
        raise InputError("--split-seed needs --split", remedy="give the shares: --split 0.8/0.1/0.1")
    words = {
        "tokenizer": arguments.tokenizer,
        "minimum_count": arguments.minimum_count,
        "maximum_length": arguments.maximum_length,
        "truncation_side": arguments.truncation_side,
    }
    check_settings(DataConfig, words, "data")
    directory = data_directory(arguments.name, arguments.data_directory)
    settings = DataSettings(
        name=arguments.name,
        directory=directory,
        task=arguments.task,
        **layout_settings(arguments, OWN_LAYOUT),
        vectors=vectors_file(arguments.vectors, directory),
        lowercase=not arguments.keep_case,
        remove_punctuation=not arguments.keep_punctuation,
        **words,
    )
    show(check(settings))


def add_fetch_parser(actions: Any) -> None:
    """Adds `fetch` to the actions of `jaxmatch data`."""
    fetch = actions.add_parser("fetch", help="download data sets and word vectors", allow_abbrev=False)
    fetch.add_argument("names", nargs="*", metavar="NAME", help="what to fetch (default: list what there is)")
    fetch.add_argument("--data-directory", metavar="DIR", help="folder to put it into (default: $JAXMATCH_DATA)")
    fetch.add_argument(
        "--from", dest="source", default="", metavar="URL|FOLDER", help="mirror or folder with files of the same names"
    )
    fetch.add_argument("--accept-licenses", action="store_true", help="accept the licenses shown, without being asked")
    fetch.set_defaults(act=_fetch)


def _fetch(arguments: argparse.Namespace) -> None:
    from jaxmatch.data.catalog import DATA_VARIABLE
    from jaxmatch.data.fetch import fetch, release_of, releases

    if not arguments.names:
        show(_list(releases().values()))
        return
    # A data set that has several names is fetched once.
    chosen = list({release.name: release for release in map(release_of, arguments.names)}.values())
    directory = arguments.data_directory or os.environ.get(DATA_VARIABLE, "")
    if not directory:
        raise InputError(
            "no data directory is named", remedy="give --data-directory, or set the variable JAXMATCH_DATA"
        )
    place_of = {release.name: release.place(Path(directory)) for release in chosen}
    _accept([release for release in chosen if not place_of[release.name].exists()], arguments.accept_licenses)
    for release in chosen:
        fetch(release, Path(directory), arguments.source)
        show(f"{place_of[release.name]} is there")


def _list(releases: Any) -> str:
    lines = []
    for release in releases:
        how = release.title if all(file.address for file in release.files) else f"{release.title}; only with --from"
        lines.append(f"{release.name:<12}  {how}\n{'':<12}  {release.license}; {release.home}")
    return printable("\n".join(lines), keep="\n")


def _accept(releases: Sequence[Any], accepted: bool) -> None:
    """Shows the license of each release, and asks the user to accept it unless `accepted` is true.

    Raises:
      InputError: a license is not accepted, or the user cannot be asked because standard input is not a terminal.
    """
    for release in releases:
        note(f"{release.title}: license {release.license}; see {release.home}")
        if accepted:
            continue
        if sys.stdin is None or not sys.stdin.isatty():
            raise InputError(
                f"the license of {release.name} is not accepted", remedy="read it, then give --accept-licenses"
            )
        print("Do you accept it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise InputError(f"the license of {release.name} is not accepted", remedy="nothing was fetched")


GIB = 2**30


def add_devices_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: the command has no arguments."""


def devices(arguments: argparse.Namespace) -> None:
    """List the devices that JAX finds, with their memory.

        jaxmatch devices

    To try training on them, run a small sweep: jaxmatch sweep quickstart --smoke.
    """
    import jax

    from jaxmatch.devices import available_devices
    from jaxmatch.sweep.execute import device_name

    devices = available_devices()
    show(f"JAX {jax.__version__} computes on {device_name(devices)}")
    for device in devices:
        show(f"  {device.platform} {device.id}: {memory_text(device)}")


def memory_text(device) -> str:
    """Describes a device's memory, as the platform reports it: "60.0 GiB for this process, 0.4 GiB in use"."""
    from jaxmatch.devices import device_bytes

    statistics = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        limit, used = statistics["bytes_limit"] / GIB, statistics.get("bytes_in_use", 0) / GIB
        return f"{limit:.1f} GiB for this process, {used:.1f} GiB in use"
    if device.platform == "cpu":
        return f"{device_bytes(device) / GIB:.1f} GiB, its share of this machine's memory"
    return "it does not report its memory"
