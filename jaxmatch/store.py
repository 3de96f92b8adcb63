"""Named objects in an object store: a thin adapter over fsspec (https://filesystem-spec.readthedocs.io).

An object appears whole or not at all, and every reader sees it as soon as its write has returned. S3, Google Cloud
Storage and Azure Blob Storage promise both. An operation that fails is tried again for about a minute.
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

from jaxmatch.errors import InputError, NotInstalled, first_line, nearest

# Seconds between two tries.
WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SECONDS_TO_ANSWER = 60.0
PARALLEL_READS = 16
URL = re.compile(r"([a-z][a-z0-9+]*)://.*[^/].*")
# Errors of the disk of this machine, not of the store.
_LOCAL_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}

_Answer = TypeVar("_Answer")


class StoreError(Exception):
    """The error about a store operation that failed after all tries.

    Arguments:
      url: the URL of the store.
      problem: the problem, in one line.
    """

    def __init__(self, url: str, problem: str):
        super().__init__(url, problem)
        self.url, self.problem = url, problem

    def __str__(self) -> str:
        return f"{self.url}: {self.problem}"


class Store:
    """The objects below a URL. Their names are relative paths such as "cohorts/1a2b/state.json".

    Arguments:
      url: the URL, such as "s3://bucket/folder". The package for its scheme finds addresses and credentials (for S3, in
        the variables and files of AWS).

    Raises:
      InputError: the URL is not that of a store, its scheme is unknown, or a package is missing.
    """

    def __init__(self, url: str):
        self._files, root = _opened(url)
        self.url, self._root = url.rstrip("/"), root.rstrip("/")
        self._local = "file" in self._files.protocol
        if self._local:
            self._files.auto_mkdir = True

    def at(self, name: str) -> str:
        """Returns the URL of an object, for messages."""
        return f"{self.url}/{name}"

    @contextlib.contextmanager
    def token(self) -> Iterator[tuple[str, bytes]]:
        """Writes an object that `check` in another process can read, and yields its name and content.

        The object is removed at the end of the block.
        """
        name, content = f"reached-{secrets.token_hex(8)}", secrets.token_hex(16).encode()
        self.write(name, content)
        try:
            yield name, content
        finally:
            self.remove(name)

    def check(self, token: tuple[str, bytes] | None = None) -> None:
        """Checks that the store can be used: writes, reads and removes an object.

        Arguments:
          token: the name and content of an object that another process has written and that is read, too.

        Raises:
          InputError: the store cannot be used, or takes longer than a minute.
        """
        outcomes: list[Exception | None] = []

        def probe() -> None:
            try:
                name, content = f"reached-{secrets.token_hex(8)}", secrets.token_bytes(16)
                self._files.pipe_file(self._path(name), content)
                same = self._files.cat_file(self._path(name)) == content
                self._files.rm_file(self._path(name))
                if token is not None:
                    same = same and self.read(token[0]) == token[1]
                outcomes.append(None if same else OSError("it does not return what was written"))
            except Exception as error:  # the class of the error depends on the scheme
                outcomes.append(error)

        thread = threading.Thread(target=probe, daemon=True)
        thread.start()
        thread.join(SECONDS_TO_ANSWER)
        error = outcomes[0] if outcomes else TimeoutError(f"no answer within {SECONDS_TO_ANSWER:.0f} seconds")
        if isinstance(error, FileNotFoundError):
            raise InputError(f"there is no such bucket ({first_line(error)})", path=self.url, remedy="create it first")
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
        """Returns the content of an object, or None if the object does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return self._retry(lambda: self._files.cat_file(self._path(name)))
        return None

    def read_all(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Returns name -> content for the objects that exist; reads several at a time."""
        names = list(names)
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            return {name: content for name, content in zip(names, pool.map(self.read, names)) if content is not None}

    def write(self, name: str, content: bytes) -> None:
        """Creates or replaces an object."""
        with self._write_path(name) as path:
            self._retry_write(lambda: self._files.pipe_file(path, content))

    def create(self, name: str, content: bytes) -> bool:
        """Creates an object unless it exists, and returns whether it was created.

        This is a single step in a store that supports it: S3 with conditional writes, Google Cloud Storage, local
        files. In other stores, the object is looked up first and then written.
        """
        if self.read(name) is not None:  # some stores, such as MinIO, refuse the write without a reason
            return False
        try:
            self._retry_write(
                lambda: self._files.pipe_file(self._path(name), content, mode="create"), NotImplementedError
            )
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
        """Creates or replaces an object with the content of a local file."""
        with self._write_path(name) as path:
            self._retry_write(lambda: self._files.put_file(str(file), path))

    def download(self, name: str, file: Path) -> bool:
        """Writes an object to a local file, and returns whether the object exists."""
        with contextlib.suppress(FileNotFoundError):
            self._retry(lambda: self._files.get_file(self._path(name), str(file)))
            return True
        return False

    def remove(self, *names: str) -> None:
        """Removes the objects that exist."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._retry(lambda: self._files.rm_file(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Returns the names of the objects and folders directly in a folder, without the path of the folder, sorted."""
        with contextlib.suppress(FileNotFoundError):
            found = self._retry(lambda: self._files.ls(self._path(folder), detail=False, refresh=True))
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found)
        return []

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _write_path(self, name: str) -> Iterator[str]:
        """Yields a path to write an object to. A local file is written under another name and then renamed."""
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

    def _retry_write(self, action: Callable[[], Any], *passed: type[Exception]) -> None:
        """Runs an action as `_retry` does, but raises StoreError if the store does not exist."""
        try:
            self._retry(action, *passed)
        except FileNotFoundError as error:
            raise StoreError(self.url, first_line(error)) from error

    def _retry(self, action: Callable[[], _Answer], *passed: type[Exception]) -> _Answer:
        """Runs an action, and repeats it after each of `WAITS` as long as it fails.

        Errors that another try cannot change are raised at once: a missing or existing object, a full or read-only disk
        of this machine, refused access, and `passed`.
        """
        waits = iter(WAITS)
        while True:
            try:
                return action()
            except (FileNotFoundError, FileExistsError, *passed):
                raise
            except Exception as error:  # the class of the error depends on the scheme
                if isinstance(error, OSError) and error.errno in _LOCAL_DISK_ERRORS:
                    raise
                wait = next(waits, None)
                if wait is None or isinstance(error, PermissionError):
                    raise StoreError(self.url, first_line(error)) from error
                time.sleep(wait)


def _opened(url: str) -> tuple[Any, str]:
    found = URL.fullmatch(url)
    if not found:
        raise InputError(f"{url!r} is not a URL of an object store", remedy="give --store as s3://BUCKET/FOLDER")
    scheme, remedy = found[1], "pip install 'jaxmatch[store]'"
    if importlib.util.find_spec("fsspec") is None:
        raise NotInstalled("--store", "fsspec", "store")
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
    except Exception as error:  # the class of the error depends on the scheme
        raise InputError(
            f"the store cannot be opened ({first_line(error)})", path=url, remedy="check the URL"
        ) from None
