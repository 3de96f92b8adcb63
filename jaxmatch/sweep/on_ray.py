"""Training of cohorts as tasks of a Ray cluster (https://docs.ray.io), which queues them and gives them devices.

The workdir, on a file system that all nodes share, or an object store (store.py) holds the state. A cohort whose worker
or node dies becomes another task, which resumes from the last checkpoint. If this command dies, the next one resumes
all cohorts in the same way.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from filelock import FileLock, Timeout

from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import cores, device_bytes, keep_compiled_programs
from jaxmatch.errors import InputError, NotInstalled, first_line
from jaxmatch.sweep import worker
from jaxmatch.sweep.execute import Engine, Stage, Stopped, Task, TaskContext, train_claimed
from jaxmatch.sweep.plan import (
    SECONDS_OF_A_START,
    SHARE_OF_PEAK,
    Plan,
    make_plan,
    multiply_adds_a_second,
    split_cohorts,
)
from jaxmatch.sweep.store import Store
from jaxmatch.sweep.sweep import Run, Sweep
from jaxmatch.workdir import CohortFolder, Workdir, mark_failed

SECONDS_TO_ANSWER = 10.0
SECONDS_BETWEEN_POLLS = 1.0
# The time that workers have to write a checkpoint when they are told to stop.
SECONDS_TO_STOP = 60.0
# A cohort has failed once its workers have died this often without a new checkpoint.
MOST_DEATHS = 3

# A method of `CohortDisplay` that a worker calls, and its arguments. "cohort" begins the display.
Event = tuple[str, tuple[Any, ...]]


class _Reporter:
    """The display and the listener of a worker. It passes on all events, but steps at most once a second.

    Arguments:
      report: the function that takes the events.
      upload: the function that uploads a checkpoint that was written.
    """

    def __init__(self, report: Callable[[Event], None], upload: Callable[[], None]):
        self._report, self._upload, self._stepped_at = report, upload, -SECONDS_BETWEEN_POLLS

    def cohort(self, folder: CohortFolder, runs: Sequence[Run]) -> "_Reporter":
        self._report(("cohort", ()))
        return self

    def __getattr__(self, method: str) -> Callable[..., None]:
        return lambda *arguments: self._report((method, arguments))

    def stepped(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._stepped_at >= SECONDS_BETWEEN_POLLS:
            self._stepped_at = time.monotonic()
            self._report(("stepped", (done, total)))

    def saved(self) -> None:
        with contextlib.suppress(InputError):  # the store may be reached again at the next checkpoint
            self._upload()
            self._report(("saved", ()))


@dataclasses.dataclass(frozen=True)
class _Order:
    """What a worker does.

    Attributes:
      plan: the part of the plan that the cohort needs, without its data.
      folder: the folder of the cohort.
      stage: how far the cohort is trained.
      failed_before: the failure of the cohort when the stage began (`CohortFolder.failure`).
      extend: a function that loads extensions of the package.
      platform: the platform that the worker must compute on.
      versions: the versions that the worker must run.
      store: the store of the cohort. None: all nodes reach its folder.
    """

    plan: Plan
    folder: CohortFolder
    stage: Stage
    failed_before: bytes | None
    extend: Callable[[], None] | None
    platform: str
    versions: Mapping[str, str]
    store: Store | None

    def train(self, data: EncodedData, report: Callable[[Event], None], stop: threading.Event) -> None:
        """Trains the cohort and reports events, or returns if another process holds the cohort for long.

        Arguments:
          data: the data of the cohort.
          report: the function that takes the events.
          stop: an event that ends training early, with a checkpoint.

        Raises:
          InputError: the worker cannot train as this command would, or its system prevents training.
        """
        host = socket.gethostname()
        if self.extend is not None:
            self.extend()
        if (versions := worker.versions()) != self.versions:
            raise InputError(f"{host} runs {versions}, not {self.versions}", remedy="install the same versions there")
        if jax.default_backend() != self.platform:  # a CPU would be many times slower than a GPU for no visible reason
            raise InputError(f"JAX finds no {self.platform} on {host}", remedy="install the same packages there")
        if self.store is None and not self.folder.path.exists():
            remedy = "give a --workdir on a file system that all nodes share, or --store"
            raise InputError(f"the worker on {host} does not reach this folder", path=self.folder.path, remedy=remedy)
        keep_compiled_programs(self.plan.sweep.config.execution.cache_directory)
        try:
            with self.store.local(self.folder) if self.store else contextlib.nullcontext(self.folder) as folder:
                upload = functools.partial(self.store.put, folder) if self.store else lambda: None
                plan, workdir = worker.with_data(self.plan, data), Workdir(folder.path.parents[1])
                shown, devices = _Reporter(report, upload), tuple(jax.local_devices()[:1])
                wait = worker.SECONDS_FOR_THE_LOCK
                with contextlib.suppress(Stopped):
                    train_claimed(plan, folder, workdir, shown, self.stage, devices, stop, self.failed_before, wait)
        except OSError as error:
            remedy = "fix that there, or remove the node from the cluster, and run the same command again"
            raise InputError(f"the worker on {host} cannot continue ({first_line(error)})", remedy=remedy) from None


def _train(order: _Order, data: EncodedData) -> Iterator[Event]:
    """Trains a cohort in a worker, as a task. Yields the events. `ray.cancel` leads to a checkpoint."""
    stop, events = threading.Event(), queue.SimpleQueue()
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        training = thread.submit(order.train, data, events.put, stop)
        training.add_done_callback(lambda _: events.put(None))
        try:
            event = ()
            while event is not None:
                with contextlib.suppress(queue.Empty):  # only between waits, Python calls the handler of a signal
                    if event := events.get(timeout=SECONDS_BETWEEN_POLLS):
                        yield event
        finally:
            stop.set()
        training.result()


def _measure() -> tuple[worker.WorkerDevice, float]:
    """Measures a worker's device, as a task. Returns the device and its speed in multiply-adds per second."""
    device = jax.devices()[0]
    found = worker.WorkerDevice(device.platform, device.device_kind, device_bytes(device))
    return found, multiply_adds_a_second()


@dataclasses.dataclass
class _Attempt:
    """A task that trains a cohort.

    Attributes:
      task: what it does.
      deaths: how many workers have died since the last checkpoint.
      shown: the display of the cohort, while a worker trains it.
      outcome: the last event of the training, which is displayed once the task is over.
    """

    task: Task
    deaths: int = 0
    shown: Any = None
    outcome: Event | None = None

    def show(self, event: Event, context: TaskContext) -> None:
        """Displays an event of the worker."""
        method, arguments = event
        if method == "cohort":
            runs = context.stage.remaining_runs(context.plan, self.task.folder)
            self.shown = context.display.cohort(self.task.folder, runs)
        elif method in ("done", "paused", "failed"):
            self.outcome = event
        elif method != "training_ended":
            getattr(self.shown, method)(*arguments)
            if method == "saved":
                self.deaths = 0

    def has_died(self, problem: str, context: TaskContext) -> bool:
        """Displays that the worker died, and returns whether another one should try. Else the cohort has failed."""
        self.deaths, folder = self.deaths + 1, self.task.folder
        if not context.stage.reached(folder) and folder.failure() == context.before.get(folder.name):
            self.outcome = None  # it may have died before the outcome was in the store
        self.end(problem)
        if self.outcome is None and self.deaths == MOST_DEATHS:
            error = RuntimeError(f"{problem}, {self.deaths} times without a new checkpoint")
            self.outcome = "failed", (mark_failed(folder, error),)
            context.display.say(f"cohort {folder.name}: failed ({self.outcome[1][0]})")
        return self.outcome is None

    def end(self, lost: str = "its worker was told to stop") -> None:
        """Displays how the task has ended. `lost` says why, if it has no outcome."""
        if self.shown is not None:
            method, arguments = self.outcome or ("lost", (lost,))
            getattr(self.shown, method)(*arguments)
            self.shown.training_ended()
            self.shown = None


class RayEngine(Engine):
    """An engine that trains each cohort as a task of a Ray cluster, on a GPU if there are any, otherwise on CPUs.

    A task takes as many CPUs as XLA uses on this machine (`devices.cores`), or all CPUs of the largest node if it has
    fewer. The number of cores that XLA sees changes the last bits of its results, so workers use this number.
    From `begin` on, this process itself computes on CPUs.

    Arguments:
      address: HOST:PORT of the cluster's head. "": that in $RAY_ADDRESS, or the cluster of this machine.
      extend: a function that each worker calls first, to load extensions of the package.
      store: the URL of an object store, or "" if the workdir is on a file system that all nodes share.

    Raises:
      InputError: Ray is not installed.
    """

    def __init__(self, address: str = "", extend: Callable[[], None] | None = None, store: str = ""):
        try:
            import ray
        except ImportError:
            raise NotInstalled("--on ray", "Ray", "ray") from None
        self._ray, self._address, self._extend = ray, address, extend
        self._device: worker.WorkerDevice | None = None
        self._url, self._root, self._stores, self._stored = store, Path(), dict[Path, Store](), set[Path]()
        self._locks = contextlib.ExitStack()

    def begin(self, workdir: Path, name: str, dry_run: bool = False) -> None:
        # If this process used a GPU, it would take memory that workers need.
        jax.config.update("jax_platforms", "cpu")
        if self._device is None:
            self._connect()
            self._measure_cluster()
        if self._url and workdir not in self._stores and not dry_run:
            self._use_store(workdir, name)

    def _use_store(self, workdir: Path, name: str) -> None:
        """Downloads what the store holds of a sweep and the workdir lacks.

        Raises:
          InputError: the store cannot be used or holds another sweep, or another command uses the workdir.
        """
        self._root = self._root if self._stores else workdir
        store = Store(f"{self._url.rstrip('/')}/{workdir.relative_to(self._root).as_posix()}".removesuffix("/."))
        workdir.mkdir(parents=True, exist_ok=True)
        try:
            self._locks.enter_context(FileLock(workdir / ".store.lock").acquire(blocking=False))
        except Timeout:
            raise InputError("another command trains this sweep", path=workdir, remedy="wait for it") from None
        stored, done = set(store.begin(name)), {folder.name for folder in Workdir(workdir).cohorts() if folder.done}
        for cohort in stored - done:
            store.get(cohort, workdir)
        self._stored |= {folder.path for folder in Workdir(workdir).cohorts() if folder.done and folder.name in stored}
        self._stores[workdir] = store

    def _connect(self) -> None:
        """Connects to the cluster.

        Raises:
          InputError: no cluster answers at the address, or it runs another version of Ray or Python.
        """
        place = self._address or os.environ.get("RAY_ADDRESS") or "auto"
        host, _, port = place.rpartition(":")
        try:
            if place != "auto":  # Ray itself would wait for two minutes
                socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
            self._ray.init(place, log_to_driver=False, logging_level=logging.CRITICAL)
        except (Exception, SystemExit) as error:  # Ray does not specify what it raises
            raise InputError(
                f"Ray cannot be used at {place} ({first_line(error)})",
                remedy="start it with ray start --head, or give --on ray:HOST:PORT of a running one",
            ) from None

    def _measure_cluster(self) -> None:
        """Finds out how many tasks the nodes can run at once, and which device a task has.

        Raises:
          InputError: there are no nodes for tasks, or workers cannot use JAX or their GPUs.
        """
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self._gpus = any(node.get("GPU", 0) >= 1 for node in nodes)
        self._cpus = int(min(cores(), max((node.get("CPU", 0) for node in nodes), default=0)))
        if not self._gpus and not self._cpus:
            raise InputError("no node of the Ray cluster has a CPU or GPU for tasks", remedy="add one with ray start")
        slots = [int(node.get("GPU", 0) if self._gpus else node.get("CPU", 0) // self._cpus) for node in nodes]
        measured = self._ray.remote(**self._options())(_measure).remote()
        if not self._ray.wait([measured], timeout=SECONDS_TO_ANSWER)[0]:
            sys.stderr.write("waiting for a free worker of the Ray cluster\n")
        try:
            device, self._speed = self._ray.get(measured)
        except self._ray.exceptions.RayError as error:
            reason = first_line(getattr(error, "cause", None) or error)
            raise InputError(
                f"a worker of the Ray cluster cannot use JAX ({reason})",
                remedy="install this version of jaxmatch on all nodes",
            ) from None
        if self._gpus and device.platform == "cpu":
            problem = "the nodes of the Ray cluster have GPUs that JAX does not see there"
            raise InputError(problem, remedy="install jaxmatch[cuda12] or jaxmatch[cuda13] on them")
        if not self._gpus:  # the tasks of a node share its memory
            device = dataclasses.replace(device, bytes=device.bytes // max(slots))
        self._device, self._slots = device, sum(slots)

    def _options(self) -> dict[str, Any]:
        """Returns the options of a task, such as the resources that it takes of a node."""
        variables, needs = worker.variables(), {"num_gpus": 1, "num_cpus": 0, "max_calls": 1}
        if not self._gpus:  # Ray does not hide GPUs from a task that asks for none
            variables, needs = variables | {"JAX_PLATFORMS": "cpu"}, {"num_cpus": self._cpus}
        return {**needs, "max_retries": 0, "scheduling_strategy": "SPREAD", "runtime_env": {"env_vars": variables}}

    def plan(self, sweep: Sweep) -> Plan:
        plan = dataclasses.replace(make_plan(sweep, [self._device]), slots=self._slots, speed=self._speed)
        return split_cohorts(plan, self._slots, SECONDS_OF_A_START * self._speed * SHARE_OF_PEAK)

    def devices_for(self, runs: int) -> int:
        return 1

    def close(self) -> None:
        """Disconnects from the cluster."""
        self._locks.close()
        self._ray.shutdown()

    def run(self, tasks: Sequence[Task], context: TaskContext) -> bool:
        ray, errors = self._ray, self._ray.exceptions
        train, data, trained = ray.remote(**self._options())(_train), {}, False
        store = self._stores.get(context.workdir.path)
        running: dict[Any, _Attempt] = {}

        def submit(attempt: _Attempt) -> None:
            folder = attempt.task.folder
            part, encoded = worker.part_of(context.plan, folder)
            if encoded.content not in data:
                data[encoded.content] = ray.put(encoded)
            order = _Order(
                part,
                dataclasses.replace(folder, path=folder.path.absolute()),
                context.stage,
                context.before.get(folder.name),
                self._extend,
                self._device.platform,
                worker.versions(),
                store,
            )
            running[train.remote(order, data[encoded.content])] = attempt

        with contextlib.redirect_stdout(sys.stderr):  # Ray prints about nodes that die; the table must stay alone
            try:
                for task in sorted(tasks, key=lambda task: -task.duration):
                    if task.folder.path in self._stored:  # it was done, but not all of its records are wanted
                        self._stored.remove(task.folder.path)
                        store.remove(task.folder.name)
                    submit(_Attempt(task))
                while running:
                    for events in ray.wait(list(running), timeout=SECONDS_BETWEEN_POLLS)[0]:
                        attempt = running[events]
                        try:
                            attempt.show(ray.get(next(events)), context)
                            continue
                        except StopIteration:
                            if store is not None:
                                self._take(attempt, store, context)
                            attempt.end()
                        except errors.RayTaskError as error:
                            raise (error.cause if isinstance(error.cause, Exception) else error) from None
                        except errors.RayError as error:
                            if attempt.has_died(f"its worker died ({type(error).__name__})", context):
                                submit(attempt)
                        del running[events]
                        trained |= attempt.outcome is not None
            finally:
                self._stop(running)
        return trained

    def _take(self, attempt: _Attempt, store: Store, context: TaskContext) -> None:
        """Downloads a cohort that a worker has trained.

        Raises:
          InputError: the worker has another store, for example a folder of its own.
        """
        folder = attempt.task.folder
        store.get(folder.name, context.workdir.path)
        if attempt.outcome and attempt.outcome[0] != "failed" and not context.stage.reached(folder):
            problem = "the store does not hold what a worker has uploaded"
            raise InputError(problem, path=store.url, remedy="give a --store that all nodes reach")

    def _stop(self, running: Mapping[Any, _Attempt]) -> None:
        """Tells workers to stop, and waits until they have written their checkpoints."""
        for events in running:
            self._ray.cancel(events)
        left = [events.completed() for events in running]
        try:
            if left:
                _, left = self._ray.wait(left, num_returns=len(left), timeout=SECONDS_TO_STOP)
        finally:
            for task in left:  # not one that has just ended: if it is cancelled at that moment, Ray ends this process
                self._ray.cancel(task, force=True)
            for attempt in running.values():
                attempt.end()
