"""Cohorts in an object store, for workers that share no file system. fsspec (https://filesystem-spec.readthedocs.io)
reaches the store.

    URL/cohorts/COHORT.tar    the newest checkpoint of a cohort or, once it is done, the folders of its runs; the paths
                              are those in a workdir

An object is replaced whole.
"""

import contextlib
import os
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jaxmatch.errors import InputError, NotInstalled, first_line
from jaxmatch.workdir import CohortFolder, Workdir


class Store:
    """The objects below a URL, such as "s3://bucket/folder".

    Raises:
      InputError: fsspec, or its package for such a store, is not installed, or there is no such kind of store.
    """

    def __init__(self, url: str):
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise NotInstalled("--store", "fsspec", "store") from None
        self.url = url.rstrip("/")
        with self._errors():
            self._files, self._root = url_to_fs(self.url, use_listings_cache=False)
        self._local = "file" in self._files.protocol

    def begin(self, name: str) -> list[str]:
        """Writes the name of the sweep to the store. Returns the names of the cohorts that the store holds.

        Raises:
          InputError: the store cannot be used, or holds another sweep.
        """
        with self._errors():
            if self._local:
                self._files.makedirs(f"{self._root}/cohorts", exist_ok=True)
            place = f"{self._root}/sweep"
            owner = self._files.cat_file(place).decode() if self._files.exists(place) else name
            self._files.pipe_file(place, owner.encode())
            found = [Path(path).stem for path in self._files.glob(f"{self._root}/cohorts/*.tar")]
        if owner != name:
            raise InputError(
                f'this store holds the sweep "{owner}", not "{name}"', path=self.url, remedy="give a --store of its own"
            )
        return found

    @contextlib.contextmanager
    def local(self, folder: CohortFolder) -> Iterator[CohortFolder]:
        """Yields a temporary folder with what the store holds of a cohort. At the end of the block, uploads it."""
        with tempfile.TemporaryDirectory(prefix="jaxmatch-") as workdir:
            self.get(folder.name, Path(workdir))
            cohorts = Path(workdir) / "cohorts"
            here = CohortFolder.read(cohorts / folder.name)
            here = here or CohortFolder.new(cohorts, folder.signature, folder.runs)
            yield here
            self.put(here)

    def remove(self, cohort: str) -> None:
        """Removes a cohort, which then starts from the beginning. Raises InputError if the store cannot be used."""
        with self._errors():
            self._files.rm_file(self._place(cohort))

    def put(self, folder: CohortFolder) -> None:
        """Uploads the state of a cohort. Raises InputError if the store cannot be used."""
        workdir, checkpoints = Workdir(folder.path.parents[1]), folder.checkpoint_numbers()
        paths = [path for path in folder.path.iterdir() if path.is_file()]
        if folder.done:
            paths += map(workdir.run_folder, folder.runs)
        elif checkpoints:
            paths.append(folder.checkpoints / str(checkpoints[-1]))
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "cohort.tar"
            with tarfile.open(file, "w") as archive:
                for path in paths:
                    archive.add(path, path.relative_to(workdir.path))
            target = self._place(folder.name)
            with self._errors():
                if self._local:  # other stores show an object once it is whole
                    self._files.put_file(str(file), f"{target}.partial")
                    os.replace(f"{target}.partial", target)
                else:
                    self._files.put_file(str(file), target)

    def get(self, cohort: str, workdir: Path) -> None:
        """Replaces what a workdir holds of a cohort by what the store holds, if it holds anything.

        Raises:
          InputError: the store cannot be used.
        """
        with tempfile.TemporaryDirectory(prefix=".store-", dir=workdir) as scratch:
            file = Path(scratch) / "cohort.tar"
            with self._errors():
                try:
                    self._files.get_file(self._place(cohort), str(file))
                except FileNotFoundError:
                    return
            with tarfile.open(file) as archive:
                archive.extractall(scratch, filter="data")
            # The cohort, whose DONE says that its runs are on record, comes last.
            for path in sorted(Path(scratch).glob("*/*"), key=lambda path: path.parent.name, reverse=True):
                target = workdir / path.relative_to(scratch)
                target.parent.mkdir(exist_ok=True)
                shutil.rmtree(target, ignore_errors=True)
                os.replace(path, target)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises any error in the block as an `InputError`, because the class of the error depends on the store."""
        try:
            yield
        except Exception as error:
            raise InputError(
                f"the store cannot be used on {socket.gethostname()} ({first_line(error)})",
                path=self.url,
                remedy="check the URL, the credentials, and variables such as AWS_ENDPOINT_URL",
            ) from None

    def _place(self, cohort: str) -> str:
        return f"{self._root}/cohorts/{cohort}.tar"
