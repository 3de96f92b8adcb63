"""Downloads of published data sets and word vectors to a data directory."""

import datetime
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock

from jaxmatch import files
from jaxmatch.data import catalog
from jaxmatch.data.downloads import Progress, download, is_address
from jaxmatch.data.releases import Release, ReleaseFile
from jaxmatch.errors import InputError

# The record of the fetched files: {file name: {"address", "sha256", "fetched"}}.
RECORD = "fetched.json"


def is_fetched(release: Release, directory: Path) -> bool:
    """Returns whether a data directory already holds a release."""
    if not release.folder:
        return all((directory / file.name).is_file() for file in release.files)
    return (directory / release.folder).is_dir()


def fetch(
    release: Release, directory: Path, source: str = "", progress: Callable[[str], Progress] = lambda _: lambda *_: None
) -> Path:
    """Fetches a release into a data directory, unless the directory already holds the release.

    An archive becomes the official folder in one step. A file must have the checksum in releases.toml. Without a
    checksum there, a file that is fetched again must have the checksum that was recorded the first time.

    Arguments:
      release: the release to fetch.
      directory: the data directory; it is created if it does not exist.
      source: a mirror, which is an address or a folder that has the files under their official names; "" for the
        official address.
      progress: name of a file -> the `progress` that `download` calls.

    Returns:
      The official folder, or the file of word vectors.

    Raises:
      InputError: a file has no address, cannot be downloaded or copied, has the wrong checksum, or is not of the
        official release.
    """
    places = _places(release, source)
    directory.mkdir(parents=True, exist_ok=True)
    files.remove_abandoned(directory)
    with filelock.FileLock(directory / f".{release.name}.lock"):
        if not is_fetched(release, directory):
            notes = {
                file.name: _download(file, place, directory, progress(file.name))
                for file, place in zip(release.files, places, strict=True)
            }
            if release.folder:
                _unpack(release, directory)
            with filelock.FileLock(directory / f".{RECORD}.lock"):  # another release may be fetched at the same time
                files.write_json(directory / RECORD, {**_recorded(directory), **notes})
    return directory / (release.folder or release.files[0].name)


def _places(release: Release, source: str) -> list[str]:
    """Returns the address or the path from which each file is fetched."""
    if not source and not release.has_addresses:
        raise InputError(
            f"{release.name} has no address that a program may use",
            remedy=f"get it as described at {release.home}, and put it into the data directory as {release.folder}, "
            f"or give --from with a folder or an address that has {release.files[0].name}",
        )
    if not source:
        return [file.address for file in release.files]
    if is_address(source):
        return [f"{source.rstrip('/')}/{file.name}" for file in release.files]
    return [str(Path(source) / file.name) for file in release.files]


def _download(file: ReleaseFile, place: str, directory: Path, progress: Progress) -> dict[str, str]:
    """Downloads a file. Returns the entry of the file in the record."""
    recorded = _recorded(directory)
    known = file.checksum
    if not known and file.name in recorded:
        known = f"sha256:{recorded[file.name]['sha256']}"
    path = directory / file.name
    download(place, path, known, progress)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"address": place, "sha256": files.hash_file(path), "fetched": now}


def _recorded(directory: Path) -> dict[str, Any]:
    try:
        return files.read_json(directory / RECORD)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError("is damaged", path=directory / RECORD, remedy="remove it") from error


def _unpack(release: Release, directory: Path) -> None:
    """Unpacks the downloaded files into the official folder, and removes them."""
    downloads = [directory / file.name for file in release.files]
    try:
        with files.directory_atomically(directory / release.folder) as folder:
            if len(downloads) == 1:
                _extract(release, downloads[0], folder)
            else:
                for path in downloads:
                    shutil.copyfile(path, folder / path.name)
            _check(release, folder, downloads[0])
    finally:  # also if a download is damaged: the next call must not take it for a complete one
        for path in downloads:
            path.unlink()


def _extract(release: Release, archive: Path, folder: Path) -> None:
    """Fills `folder` with the content of the official folder, wherever the archive has that folder.

    If the archive does not have it, `folder` gets everything in the archive.
    """
    inside = folder / ".unpacked"
    inside.mkdir()  # unpacking an empty archive does not create it
    # With the filter "data", nothing is written outside the folder. For a zip archive this always holds.
    safely = {} if archive.suffix == ".zip" else {"filter": "data"}
    try:
        shutil.unpack_archive(archive, inside, **safely)
    except (shutil.ReadError, zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"the archive is damaged ({error})", path=archive, remedy="fetch it again") from None
    found = sorted(path for path in inside.rglob(Path(release.folder).name) if path.is_dir() and not _mac_only(path))
    for path in (found[0] if found else inside).iterdir():
        if not _mac_only(path):
            shutil.move(path, folder / path.name)
    shutil.rmtree(inside)


def _mac_only(path: Path) -> bool:
    """Returns whether an archive contains a path only because the archive was written on a Mac."""
    return "__MACOSX" in path.parts


def _check(release: Release, folder: Path, download: Path) -> None:
    """Raises InputError unless the folder has the training file that the reader of the release looks for."""
    name = release.data_sets[0]
    problem = f"it has no training file of {name!r}: it is not the official release"
    error = InputError(problem, path=download, remedy=f"it was not kept; {release.home} describes the release")
    try:
        if "train" not in catalog.find_files(name, folder):
            raise error
    except InputError:
        raise error from None
