"""The places that the command and the workers of a Ray cluster can share: a folder, or an object store."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.store import Store, StoreError
from jaxmatch.sweep import ray_cluster, worker
from jaxmatch.sweep.events import FILE, line_of, writer
from jaxmatch.sweep.store_lease import Lease
from jaxmatch.sweep.stored_sweep import StoredSweep
from jaxmatch.sweep.stored_training import execute_stored
from jaxmatch.workdir import CohortFolder

# The function that a worker calls: (order, stop) -> whether it trained the cohort.
TrainFunction = Callable[[worker.Order, threading.Event], bool]
SECONDS_TO_FETCH_EVENTS = 10.0


class SharedFolder:
    """A working folder on a file system that all nodes share."""

    def begin(self, ray: Any, workdir: Path, name: str, dry_run: bool) -> None:
        """Checks that every worker reaches the shared place.

        Arguments:
          ray: the `ray` module, connected to the cluster.
          workdir: the working folder of the sweep.
          name: the name of the sweep.
          dry_run: whether nothing will be written.

        Raises:
          InputError: `ray_cluster.check_workers` raises it.
        """
        ray_cluster.check_workers(ray, None if dry_run else workdir.absolute())

    def prepare_cohort(self, folder: CohortFolder, attempt: str) -> TrainFunction:
        """Prepares a cohort for the worker that will train it, and returns the function that the worker calls."""
        return functools.partial(_train_in, folder.path.parents[1].absolute())

    def poll(self) -> None:
        """Fetches what workers report. It is called about once a second while they train."""

    def take(self, folder: CohortFolder) -> None:
        """Fetches the state of a cohort whose worker has finished or died."""

    def close(self) -> None:
        """Releases the shared place when training is over."""


def _train_in(workdir: Path, order: worker.Order, stop: threading.Event) -> bool:
    report = writer(CohortFolder(workdir / "cohorts" / order.cohort, "", ()), order.attempt)
    return worker.execute_cohort(order, workdir, report, stop)


class ObjectStore(SharedFolder):
    """An object store. Only the command itself uses the working folder.

    Arguments:
      url: the URL of the store.

    Raises:
      InputError: the URL cannot be that of a store, or a package for it is missing.
    """

    def __init__(self, url: str):
        self._store = Store(url)
        self._lease: Lease | None = None
        self._root = Path()
        self._sweeps: dict[Path, StoredSweep] = {}
        self._folder_of_attempt: dict[str, CohortFolder] = {}
        self._ray: Any = None
        self._events: Any = None

    def begin(self, ray: Any, workdir: Path, name: str, dry_run: bool) -> None:
        """Checks that this process and every worker can use the store, and synchronizes it with the working folder.

        A dry run only checks.

        Raises:
          InputError: the store cannot be used, another command uses it, or it holds another sweep.
        """
        if workdir in self._sweeps:
            return
        with self._convert_store_errors():
            self._store.check()
            ray_cluster.check_workers(ray, None, self._store)
            if dry_run:
                return
            if not self._sweeps:
                self._root = workdir
            prefix = "" if workdir == self._root else f"{workdir.relative_to(self._root).as_posix()}/"
            sweep = StoredSweep(self._store, prefix, workdir)
            sweep.check(name)
            self._lease = self._lease or Lease(self._store)
            sweep.synchronize()
            self._sweeps[workdir] = sweep
        if self._events is None:
            self._ray, self._events = ray, _events(ray)

    def prepare_cohort(self, folder: CohortFolder, attempt: str) -> TrainFunction:
        self._lease.check()
        with self._convert_store_errors():
            sweep = self._of(folder)
            sweep.prepare_cohort(folder, attempt)
            self._folder_of_attempt[attempt] = folder
            return functools.partial(_train_from, self._store.url, sweep.place(folder), self._events)

    def poll(self) -> None:
        self._lease.check()
        with contextlib.suppress(self._ray.exceptions.RayError):  # the actor died with its node; nothing can be shown
            for attempt, line in self._ray.get(self._events.drain.remote(), timeout=SECONDS_TO_FETCH_EVENTS):
                with open(self._folder_of_attempt[attempt].path / FILE, "a", encoding="utf-8") as file:
                    file.write(line)

    def take(self, folder: CohortFolder) -> None:
        self.poll()
        with self._convert_store_errors():
            self._of(folder).take(folder)

    def close(self) -> None:
        """Uploads the last notes and releases the lease."""
        if self._lease is None:
            return
        with contextlib.suppress(StoreError, InputError):
            self._lease.check()  # notes of another command, if it holds the lease by now, must stay
            for sweep in self._sweeps.values():
                sweep.push_notes()
        self._lease.release()

    def _of(self, folder: CohortFolder) -> StoredSweep:
        return self._sweeps[folder.path.parents[1]]

    @contextlib.contextmanager
    def _convert_store_errors(self) -> Iterator[None]:
        """Raises an error of the store in the block as an `InputError` that says how to resume."""
        try:
            yield
        except StoreError as error:
            raise InputError(
                f"the store cannot be used ({error.problem})",
                path=self._store.url,
                remedy="run the same command to resume",
            ) from None


class Events:
    """An actor that collects the events of workers until the command fetches them."""

    def __init__(self):
        self._events: list[tuple[str, str]] = []

    def add(self, attempt: str, line: str) -> None:
        """Adds an event of an attempt, as a line of text."""
        self._events.append((attempt, line))

    def drain(self) -> list[tuple[str, str]]:
        """Returns and removes the events that were added since the last call."""
        taken, self._events = self._events, []
        return taken

    def flush(self) -> None:
        """Does nothing. Calls of one worker run in order, so the answer means that its events have arrived."""


def _events(ray: Any) -> Any:
    """Returns a new `Events` actor on the node of the command."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # Ray ignores the strategy of an actor that needs no resources. Every node has memory, but not every node has CPUs.
    return ray.remote(num_cpus=0, memory=1, max_restarts=-1, scheduling_strategy=here)(Events).remote()


def _train_from(url: str, place: str, events: Any, order: worker.Order, stop: threading.Event) -> bool:
    ray = ray_cluster.import_ray()

    def report(cohort: str, method: str, arguments: Sequence[Any]) -> None:
        events.add.remote(order.attempt, line_of(order.attempt, method, arguments))

    try:
        return execute_stored(url, place, order, report, stop)
    finally:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(events.flush.remote(), timeout=SECONDS_TO_FETCH_EVENTS)
