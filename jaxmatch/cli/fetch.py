"""`jaxmatch data fetch`: downloads published data sets and word vectors into a data directory."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.cli.output import note, show
from jaxmatch.errors import InputError
from jaxmatch.printable import printable


def add_parser(actions: Any) -> None:
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
    from jaxmatch.data.fetching import fetch, is_fetched
    from jaxmatch.data.places import DATA_VARIABLE
    from jaxmatch.data.releases import release_of, releases

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
    _accept([release for release in chosen if not is_fetched(release, Path(directory))], arguments.accept_licenses)
    for release in chosen:
        fetched_before = is_fetched(release, Path(directory))
        with _progress() as progress:
            place = fetch(release, Path(directory), arguments.source, progress)
        show(f"{place} {'was there already' if fetched_before else 'is there'}")


def _list(releases: Any) -> str:
    lines = []
    for release in releases:
        how = release.title if release.has_addresses else f"{release.title}; only with --from"
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


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[int, int | None], None]]]:
    """Yields a function: file name -> function of (bytes downloaded, total bytes or None) that shows the progress."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=console) as shown:

        def of_file(name: str) -> Callable[[int, int | None], None]:
            task = shown.add_task(printable(name), total=None)
            return lambda done, total: shown.update(task, completed=done, total=total)

        yield of_file
