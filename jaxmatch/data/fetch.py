"""Downloads of published data sets and word vectors. releases.toml has their addresses, checksums and licenses."""

import dataclasses
import datetime
import functools
import importlib.resources
import os
import shutil
import sys
import tarfile
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxmatch import files
from jaxmatch.data import catalog
from jaxmatch.errors import InputError, NotInstalled, first_line, nearest, shown


@dataclasses.dataclass(frozen=True)
class Release:
    """A data set or a file of word vectors, as its owners publish it."""

    name: str
    title: str  # a description, which includes the size of a large release
    license: str
    home: str  # the web page of the owners
    # An archive, or several files: "name", "address", which is missing if no official URL may be used by a program, and
    # "checksum", if it is known: "sha256:..." or "md5:..." with hexadecimal digits.
    files: Sequence[Mapping[str, str]]
    data_sets: Sequence[str] = ()  # those of the catalog that are read from the release; empty for word vectors
    folder: str = ""  # the folder of a data directory that it fills; word vectors are stored in the directory itself

    def place(self, directory: Path) -> Path:
        """Returns the path of the release in a data directory: its folder, or its file of word vectors."""
        return directory / (self.folder or self.files[0]["name"])


@functools.cache
def releases() -> Mapping[str, Release]:
    """Returns all releases by name."""
    text = importlib.resources.files("jaxmatch.data").joinpath("releases.toml").read_text(encoding="utf-8")
    return {name: Release(name, **fields) for name, fields in tomllib.loads(text).items()}


def release_of(name: str) -> Release:
    """Returns the release with this name, or the release that the data set with this name is read from."""
    found = {each: release for release in releases().values() for each in (*release.data_sets, release.name)}
    if name not in found:
        raise InputError(f"there is nothing to fetch by the name {shown(name)}", remedy=nearest(name, found))
    return found[name]


def fetch(release: Release, directory: Path, source: str = "") -> None:
    """Fetches a release into a data directory, where it appears in one step, unless it is there already.

    A file must have the checksum in releases.toml, or else the one that was recorded when it was first fetched.

    Arguments:
      release: the release to fetch.
      directory: the data directory, which is created.
      source: a mirror, an address or a folder, with the official file names; "" for the official address.

    Raises:
      InputError: a file cannot be had, has the wrong checksum, or is not of the official release.
    """
    if not source and not all("address" in file for file in release.files):
        remedy = f"get it as described at {release.home}, or give --from with a folder or an address that has it"
        raise InputError(f"{release.name} has no address that a program may use", remedy=remedy)
    if release.place(directory).exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    record = directory / "fetched.json"  # {file name: {"address", "sha256", "fetched"}}
    fetched = files.read_json(record) if record.exists() else {}
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
        for file in release.files:
            path = Path(scratch) / file["name"]
            address = f"{source.rstrip('/')}/{path.name}" if source else file["address"]
            known = f"sha256:{fetched[path.name]['sha256']}" if path.name in fetched else None
            _download(address, path, file.get("checksum", known))
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            fetched[path.name] = {"address": address, "sha256": files.hash_file(path), "fetched": now}
        if release.folder:
            _unpack(release, Path(scratch), directory)
        else:
            os.replace(path, directory / path.name)
    files.write_json(record, fetched)


def _download(address: str, path: Path, checksum: str | None) -> None:
    """Downloads a file, or copies it from a folder."""
    try:
        import pooch
    except ImportError:
        raise NotInstalled("a download", "pooch", "fetch") from None
    pooch.get_logger().setLevel("ERROR")
    downloader = lambda source, output, _: shutil.copyfile(source, output)
    if "://" in address:
        downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)  # seconds
    remedy = "it was not kept; try again, or take a mirror with --from"
    try:
        pooch.retrieve(address, checksum, fname=path.name, path=path.parent, downloader=downloader)
    except OSError as error:  # those of requests, too
        raise InputError(f"{address} could not be fetched ({first_line(error)})", remedy=remedy) from None
    except ValueError:  # pooch compares the checksums
        raise InputError(f"{address} has another checksum than {checksum}", remedy=remedy) from None


def _unpack(release: Release, scratch: Path, directory: Path) -> None:
    """Makes the official folder from the downloaded files, which are an archive or the files of the folder."""
    content, download = scratch, scratch / release.files[0]["name"]
    if len(release.files) == 1:
        content = scratch / "content"
        content.mkdir()  # an empty archive does not create it
        # With the filter "data", nothing is written outside the folder. For a zip archive this always holds.
        safely = {} if download.suffix == ".zip" else {"filter": "data"}
        try:
            shutil.unpack_archive(download, content, **safely)
        except (shutil.ReadError, zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
            raise InputError(f"{download.name} is damaged ({error})", remedy="fetch it again") from None
        shutil.rmtree(content / "__MACOSX", ignore_errors=True)
        # An archive may have its files in folders of its own.
        content = next((path for path in sorted(content.rglob(release.folder)) if path.is_dir()), content)
    with files.directory_atomically(directory / release.folder) as folder:
        for path in content.iterdir():
            shutil.move(path, folder / path.name)
        names = catalog.CATALOG[release.data_sets[0]].files["train"]
        if not any(path.name in names for path in folder.rglob("*")):
            problem = f"{download.name} has no training file: it is not the official release"
            raise InputError(problem, remedy=f"it was not kept; {release.home} describes the release")
