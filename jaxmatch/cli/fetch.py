"""`jaxmatch data fetch`: downloads published data sets and word vectors into a data directory."""

import argparse
import os
import sys
from collections.abc import Sequence
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
    from jaxmatch.data.fetch import fetch, release_of, releases
    from jaxmatch.data.places import DATA_VARIABLE

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
