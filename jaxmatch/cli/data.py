"""Commands for data and devices: data fetch, data check, data vectors, devices."""

import argparse
import dataclasses
import os
from pathlib import Path

from jaxmatch.cli import common
from jaxmatch.cli.common import note, show
from jaxmatch.errors import InputError


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    fetch = actions.add_parser("fetch", help="download data sets and word vectors", allow_abbrev=False)
    fetch.set_defaults(act=_fetch)
    add = fetch.add_argument
    add("names", nargs="*", metavar="NAME", help="what to fetch (default: list what there is)")
    add("--data-directory", metavar="DIR", help="folder to put it into (default: $JAXMATCH_DATA)")
    add("--from", dest="source", default="", metavar="URL|FOLDER", help="mirror or folder with files of the same names")
    add("--accept-licenses", action="store_true", help="accept the licenses, which are shown")
    check = actions.add_parser("check", help="counts, labels, lengths, coverage and problems", allow_abbrev=False)
    check.set_defaults(act=_check)
    check.add_argument("name", metavar="NAME", help='such as "snli", "wikiqa", "embedded_inference", or "own"')
    check.add_argument("--task", help='task of "own" data: classification, regression or ranking')
    common.add_data_arguments(check)
    vectors = actions.add_parser("vectors", help="make word vectors with a sentence encoder", allow_abbrev=False)
    vectors.set_defaults(act=_vectors)
    add = vectors.add_argument
    add("--encoder", required=True, metavar="NAME|FOLDER", help="model of sentence-transformers, or its folder")
    add("--words-of", required=True, metavar="NAME|FILE,...", help="data sets and text files whose words get a vector")
    common.add_directory_argument(vectors, "$JAXMATCH_DATA")
    add("--output", required=True, metavar="FILE", help="the file to write: .txt, or .zip")


def data(arguments: argparse.Namespace) -> None:
    """Fetch published data, and look at data before training on it.

        jaxmatch data fetch                                            # lists what can be fetched
        jaxmatch data fetch snli glove.840B --data-directory ~/data
        jaxmatch data check snli --data-directory ~/data
        jaxmatch data vectors --encoder sentence-transformers/all-MiniLM-L6-v2 --words-of sick,my.txt --output v.zip

    `fetch` downloads releases from their owners, or from a mirror, and unpacks them. `check` shows counts, labels,
    lengths, how many words have a vector, and problems such as pairs that occur in two splits; --config.data.NAME=VALUE
    changes a setting. `vectors` makes static word vectors: a sentence encoder reads each word alone (pip install
    'jaxmatch[vectors]').
    """
    arguments.act(arguments)


def _check(arguments: argparse.Namespace) -> None:
    from jaxmatch.config.settings import default_config, with_overrides
    from jaxmatch.data.data_check import check
    from jaxmatch.data.encoding import data_settings
    from jaxmatch.sweep.files import OF_THE_DATA

    options = {"name": "data.name", "task": "data.task", **OF_THE_DATA}
    given = {options[name]: value for name, value in common.given(arguments, options).items()}
    show(check(data_settings(with_overrides(default_config(), given | arguments.dotted["config"]))))


def _vectors(arguments: argparse.Namespace) -> None:
    from jaxmatch.data import catalog, vectors
    from jaxmatch.data.pairs import read_lines
    from jaxmatch.data.text import Preprocessing

    output, names = Path(arguments.output), arguments.words_of.split(",")
    if output.suffix.lower() not in (".txt", ".zip"):
        raise InputError("word vectors are written as text", path=output, remedy="end the name in .txt or .zip")
    words: dict[str, None] = {}
    for name in names:
        if name in catalog.names():
            words.update(dict.fromkeys(_words_of_data(name, arguments.data_directory)))
        else:
            tokens = Preprocessing(remove_punctuation=False).tokens
            words.update(dict.fromkeys(word for _, line in read_lines(Path(name)) for word in tokens(line)))
    note(f"{len(words):,} words")
    rows = vectors.encoder_vectors(
        arguments.encoder, list(words), progress=lambda done: note(f"{done:,} of {len(words):,} words are encoded")
    )
    vectors.write_vectors(output, words, rows)
    show(f"{output}: {len(words):,} words, {rows.shape[1]} dimensions")


def _words_of_data(name: str, directory: str | None) -> list[str]:
    """Returns the words of all splits of a data set, punctuation included, tokenized as RE2 reads it."""
    from jaxmatch.config.settings import with_overrides
    from jaxmatch.data import catalog
    from jaxmatch.data.encoding import data_settings
    from jaxmatch.data.text import Corpus
    from jaxmatch.sweep.files import load_config

    changes = {"data.directory": directory or "", "data.vectors": "hashed"}
    settings = data_settings(with_overrides(load_config("re2", dataset=name), changes))
    data = catalog.load(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
    return list(Corpus(data, dataclasses.replace(settings.preprocessing, remove_punctuation=False)).words)


def _fetch(arguments: argparse.Namespace) -> None:
    from jaxmatch.data.catalog import DATA_VARIABLE
    from jaxmatch.data.fetch import fetch, release_of, releases

    if not arguments.names:
        for release in releases().values():
            only = "" if all("address" in file for file in release.files) else "; only with --from"
            show(f"{release.name:<12}  {release.title}{only}\n{'':<12}  {release.license}; {release.home}")
        return
    if not (directory := arguments.data_directory or os.environ.get(DATA_VARIABLE)):
        raise InputError("no data directory is named", remedy=f"give --data-directory, or set {DATA_VARIABLE}")
    # A data set that has several names is fetched once.
    chosen = {release.name: (release, release.place(Path(directory))) for release in map(release_of, arguments.names)}
    for release, place in chosen.values():
        if not place.exists():
            note(f"{release.title}: license {release.license}; see {release.home}")
            if not arguments.accept_licenses:
                problem = f"the license of {release.name} is not accepted"
                raise InputError(problem, remedy="read it, then give --accept-licenses")
    for release, place in chosen.values():
        fetch(release, Path(directory), arguments.source)
        show(f"{place} is there")


def devices(arguments: argparse.Namespace) -> None:
    """List the devices that JAX finds, with their memory.

        jaxmatch devices

    To try training on them, run a small sweep: jaxmatch sweep quickstart --smoke.
    """
    import jax

    from jaxmatch.devices import available_devices, device_bytes
    from jaxmatch.sweep.provenance import device_name

    devices = available_devices()
    show(f"JAX {jax.__version__} computes on {device_name(devices)}")
    for device in devices:
        show(f"  {device.platform} {device.id}: {device_bytes(device) / 2**30:.1f} GiB for this process")
