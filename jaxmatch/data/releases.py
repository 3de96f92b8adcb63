"""What can be fetched: data sets and word vectors, their addresses, checksums and licences (releases.toml)."""

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
      name: of the file.
      address: an official URL; empty if there is none that a program may use.
      checksum: "sha256:..." or "md5:..." with hexadecimal digits; empty if none is known.
    """

    name: str
    address: str = ""
    checksum: str = ""


@dataclasses.dataclass(frozen=True)
class Release:
    """A data set or a file of word vectors, as its owners publish it.

    Attributes:
      name: what it is fetched by.
      title: what it is, with its size where it is large.
      licence: in words.
      home: the owners' page.
      files: an archive, or several files.
      data_sets: names of the catalog that are read from it; none of word vectors.
      folder: the folder of a data directory that it fills; empty for word vectors, which are next to the folders.
    """

    name: str
    title: str
    licence: str
    home: str
    files: tuple[ReleaseFile, ...]
    data_sets: tuple[str, ...] = ()
    folder: str = ""

    @property
    def has_addresses(self) -> bool:
        """Whether all its files have an official address."""
        return all(file.address for file in self.files)


@functools.cache
def releases() -> Mapping[str, Release]:
    """All releases by name."""
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
    """The release with this name, or the one that a data set is read from.

    Raises:
      InputError: there is none.
    """
    for release in releases().values():
        if name == release.name or name in release.data_sets:
            return release
    names = [*releases(), *(data_set for release in releases().values() for data_set in release.data_sets)]
    raise InputError(f"there is nothing to fetch by the name {shown(name)}", remedy=nearest(name, dict.fromkeys(names)))
