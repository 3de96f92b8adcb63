"""The data sets and word vectors that can be fetched: their addresses, checksums and licenses (releases.toml)."""

import dataclasses
import functools
import importlib.resources
import tomllib
from collections.abc import Mapping

from jaxmatch.errors import InputError, nearest
from jaxmatch.printable import shown


@dataclasses.dataclass(frozen=True)
class ReleaseFile:
    """A file to download.

    Attributes:
      name: the name of the file.
      address: an official URL that a program may use; empty if no such URL exists.
      checksum: "sha256:..." or "md5:..." with hexadecimal digits; empty if no checksum is known.
    """

    name: str
    address: str = ""
    checksum: str = ""


@dataclasses.dataclass(frozen=True)
class Release:
    """A data set or a file of word vectors, as its owners publish it.

    Attributes:
      name: the name by which the release is fetched.
      title: a description, which includes the size of a large release.
      license: the license, in words.
      home: the web page of the owners.
      files: an archive, or several files.
      data_sets: the data sets of the catalog that are read from the release; empty for word vectors.
      folder: the folder of a data directory that the release fills; empty for word vectors, which are stored directly
        in the data directory.
    """

    name: str
    title: str
    license: str
    home: str
    files: tuple[ReleaseFile, ...]
    data_sets: tuple[str, ...] = ()
    folder: str = ""

    @property
    def has_addresses(self) -> bool:
        """Whether all files of the release have an official address."""
        return all(file.address for file in self.files)


@functools.cache
def releases() -> Mapping[str, Release]:
    """Returns all releases by name."""
    text = importlib.resources.files("jaxmatch.data").joinpath("releases.toml").read_text(encoding="utf-8")
    return {
        name: Release(
            name=name,
            files=tuple(ReleaseFile(**file) for file in fields.pop("files")),
            data_sets=tuple(fields.pop("data_sets", ())),
            **fields,
        )
        for name, fields in tomllib.loads(text).items()
    }


def release_of(name: str) -> Release:
    """Returns the release with this name, or the release that the data set with this name is read from.

    Raises:
      InputError: no release and no data set of a release has this name.
    """
    for release in releases().values():
        if name == release.name or name in release.data_sets:
            return release
    names = [*releases(), *(data_set for release in releases().values() for data_set in release.data_sets)]
    raise InputError(f"there is nothing to fetch by the name {shown(name)}", remedy=nearest(name, dict.fromkeys(names)))
