"""An object store as a place of named objects: a thin adapter over fsspec (https://filesystem-spec.readthedocs.io).

An object appears whole or not at all, and is seen by everybody as soon as its write has returned. S3, Google Cloud
Storage and Azure Blob Storage promise both. What does not succeed is tried again for about a minute.
"""

import contextlib
import errno
import importlib.util
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from jaxmatch.errors import InputError, first_line, nearest

# Seconds between two tries.
WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SECONDS_TO_ANSWER = 60.0
AT_ONCE = 16
URL = re.compile(r"([a-z][a-z0-9+]*)://.*[^/].*")
# Errors of this machine's disk, not of the store.
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}

_Answer = TypeVar("_Answer")


class StoreError(Exception):
    """A store does not do what it is asked, after all tries.

    Arguments:
      url: of the store.
      problem: in a line.
    """

    def __init__(self, url: str, problem: str):
        super().__init__(url, problem)
        self.url, self.problem = url, problem

    def __str__(self) -> str:
        return f"{self.url}: {self.problem}"


class Store:
    """Objects below a URL; their names are relative paths, "cohorts/1a2b/state.json".

    Arguments:
      url: as "s3://bucket/folder". Addresses and credentials are found as the package of the scheme does (for S3: the
        variables and files of AWS).

    Raises:
      InputError: it is no URL, its scheme is unknown, or a package is missing.
    """

    def __init__(self, url: str):
        self._files, root = _opened(url)
        self.url, self._root = url.rstrip("/"), root.rstrip("/")
        self._local = "file" in self._files.protocol
        if self._local:
            self._files.auto_mkdir = True

    def at(self, name: str) -> str:
        """The URL of an object, for messages."""
        return f"{self.url}/{name}"

    @contextlib.contextmanager
    def token(self) -> Iterator[tuple[str, bytes]]:
        """Writes an object, for `check` elsewhere; its name and content. It is removed in the end."""
        name, content = f"reached-{secrets.token_hex(8)}", secrets.token_hex(16).encode()
        self.write(name, content)
        try:
            yield name, content
        finally:
            self.remove(name)

    def check(self, token: tuple[str, bytes] | None = None) -> None:
        """Writes, reads and removes an object of its own.

        Arguments:
          token: what another process has written, to be read, too.

        Raises:
          InputError: that is not possible, or takes longer than a minute.
        """
        ended: list[Exception | None] = []

        def try_it() -> None:
            try:
                name, content = f"reached-{secrets.token_hex(8)}", secrets.token_bytes(16)
                self._files.pipe_file(self._path(name), content)
                same = self._files.cat_file(self._path(name)) == content
                self._files.rm_file(self._path(name))
                if token is not None:
                    same = same and self.read(token[0]) == token[1]
                ended.append(None if same else OSError("it does not return what was written"))
            except Exception as error:  # what it raises depends on the scheme
                ended.append(error)

        thread = threading.Thread(target=try_it, daemon=True)
        thread.start()
        thread.join(SECONDS_TO_ANSWER)
        error = ended[0] if ended else TimeoutError(f"no answer within {SECONDS_TO_ANSWER:.0f} seconds")
        if isinstance(error, FileNotFoundError):
            raise InputError(f"there is no such bucket ({first_line(error)})", path=self.url, remedy="make it first")
        if isinstance(error, PermissionError) or "redentials" in first_line(error):
            raise InputError(
                f"the store refuses access ({first_line(error)})", path=self.url, remedy="check the credentials for it"
            )
        if error is not None:
            raise InputError(
                f"the store cannot be reached ({first_line(error)})",
                path=self.url,
                remedy="check its address, as in AWS_ENDPOINT_URL, and the network",
            )

    def read(self, name: str) -> bytes | None:
        """The content of an object, or None where there is none."""
        with contextlib.suppress(FileNotFoundError):
            return self._tried(lambda: self._files.cat_file(self._path(name)))
        return None

    def read_all(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Name -> content of those objects that there are; several are read at a time."""
        names = list(names)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return {name: content for name, content in zip(names, pool.map(self.read, names)) if content is not None}

    def write(self, name: str, content: bytes) -> None:
        """Makes or replaces an object."""
        with self._whole(name) as path:
            self._wanted(lambda: self._files.pipe_file(path, content))

    def create(self, name: str, content: bytes) -> bool:
        """Makes an object unless there is one; whether it did.

        In one step where the store can: S3 with conditional writes, Google Cloud Storage, local files. Elsewhere it
        looks first.
        """
        if self.read(name) is not None:  # some stores, such as MinIO, refuse later without saying why
            return False
        try:
            self._wanted(lambda: self._files.pipe_file(self._path(name), content, mode="create"), NotImplementedError)
        except FileExistsError:
            return False
        except StoreError:
            if self.read(name) is None:
                raise
            return False
        except NotImplementedError:
            self.write(name, content)
        return True

    def upload(self, name: str, file: Path) -> None:
        """Makes or replaces an object by a local file."""
        with self._whole(name) as path:
            self._wanted(lambda: self._files.put_file(str(file), path))

    def download(self, name: str, file: Path) -> bool:
        """Writes an object to a local file; whether there is one."""
        with contextlib.suppress(FileNotFoundError):
            self._tried(lambda: self._files.get_file(self._path(name), str(file)))
            return True
        return False

    def remove(self, *names: str) -> None:
        """Removes objects, if they are there."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._tried(lambda: self._files.rm_file(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """The last parts of the names that begin with `folder` and a slash, without what follows another slash."""
        with contextlib.suppress(FileNotFoundError):
            found = self._tried(lambda: self._files.ls(self._path(folder), detail=False, refresh=True))
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found)
        return []

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _whole(self, name: str) -> Iterator[str]:
        """A path to write an object to. Local files are no store: they are written beside it, and renamed."""
        if not self._local:
            yield self._path(name)
            return
        scratch = self._path(f"{name}.{secrets.token_hex(4)}.partial")
        try:
            yield scratch
            os.replace(scratch, self._path(name))
        finally:
            with contextlib.suppress(OSError):
                os.remove(scratch)

    def _wanted(self, action: Callable[[], Any], *passed: type[Exception]) -> None:
        """As `_tried`, where a store that is not there is an error."""
        try:
            self._tried(action, *passed)
        except FileNotFoundError as error:
            raise StoreError(self.url, first_line(error)) from error

    def _tried(self, action: Callable[[], _Answer], *passed: type[Exception]) -> _Answer:
        for wait in (*WAITS, None):
            try:
                return action()
            except (FileNotFoundError, FileExistsError, *passed):
                raise
            except Exception as error:  # what it raises depends on the scheme
                if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
                    raise
                if wait is None or isinstance(error, PermissionError):
                    raise StoreError(self.url, first_line(error)) from error
                time.sleep(wait)
        raise AssertionError


def _opened(url: str) -> tuple[Any, str]:
    found = URL.fullmatch(url)
    if not found:
        raise InputError(f"{url!r} is not a URL of an object store", remedy="give --store as s3://BUCKET/FOLDER")
    scheme, remedy = found[1], "pip install 'jaxmatch[store]'"
    if importlib.util.find_spec("fsspec") is None:
        raise InputError("--store needs fsspec, which is not installed", remedy=remedy)
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations, registry

    if scheme not in known_implementations and scheme not in registry:
        raise InputError(f"fsspec knows no store {scheme}://", remedy=nearest(scheme, ("s3", "gs", "az")))
    try:
        return url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        if scheme not in ("s3", "s3a"):
            remedy = str(known_implementations.get(scheme, {}).get("err") or error)
        raise InputError(f"a package for {scheme}:// is not installed", remedy=remedy) from None
    except Exception as error:  # what it raises depends on the scheme
        raise InputError(
            f"the store cannot be opened ({first_line(error)})", path=url, remedy="check the URL"
        ) from None
