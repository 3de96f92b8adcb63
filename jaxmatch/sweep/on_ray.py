"""Training of cohorts as tasks of a Ray cluster (https://docs.ray.io), which queues them and gives them devices.

The workdir, on a file system that all nodes share, or an object store holds the state. A cohort whose worker or node
dies becomes another task, which resumes from the last checkpoint. If this command dies, the next one resumes all
cohorts in the same way.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import os
import queue
import shutil
import signal
import socket
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import cores, device_bytes
from jaxmatch.errors import InputError, NotInstalled, first_line
from jaxmatch.sweep.launch import PAUSED, Engine, Training
from jaxmatch.sweep.plan import Plan, make_plan, multiply_adds_per_second, split_cohorts
from jaxmatch.sweep.remote import RemoteCohort, variables, worker_device
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.workdir import CohortFolder, Workdir

SECONDS_TO_ANSWER = 10.0
SECONDS_BETWEEN_POLLS = 1.0
# The time that workers have to write a checkpoint when they are told to stop.
SECONDS_TO_STOP = 60.0
# A cohort has failed once its workers have died this often without a new checkpoint.
MOST_DEATHS = 3


class Store:
    """The cohorts in an object store, such as "s3://bucket/folder", for workers that share no file system.

    URL/cohorts/COHORT.tar holds the newest checkpoint of a cohort or, once it is done, the folders of its runs, under
    their paths in a workdir. All methods raise InputError if the store cannot be used.
    """

    def __init__(self, url: str):
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise NotInstalled("--store", "fsspec", "store") from None
        self.url = url
        with self._errors():
            self._files, root = url_to_fs(url, use_listings_cache=False)
            self._folder = f"{root}/cohorts"
            if "file" in self._files.protocol:
                self._files.makedirs(self._folder, exist_ok=True)

    def names(self) -> set[str]:
        """Returns the names of the stored cohorts."""
        with self._errors():
            return {Path(path).stem for path in self._files.glob(f"{self._folder}/*.tar")}

    @contextlib.contextmanager
    def local(self, folder: CohortFolder) -> Iterator[CohortFolder]:
        """Yields a temporary folder with what the store holds of a cohort. At the end of the block, uploads it."""
        with tempfile.TemporaryDirectory(prefix="jaxmatch-") as workdir:
            self.get(folder.name, Path(workdir))
            cohorts = Path(workdir) / "cohorts"
            here = CohortFolder.read(cohorts / folder.name)
            if here is None or here.done:  # done before, but not all of its records are wanted
                here = CohortFolder.new(cohorts, folder.signature, folder.runs)
            yield here
            self.put(here)

    def put(self, folder: CohortFolder) -> None:
        """Uploads the state of a cohort. The object is replaced whole."""
        workdir, newest = folder.workdir, folder.newest_checkpoint()
        paths = [path for path in folder.path.iterdir() if path.is_file()]
        if folder.done:
            paths += map(workdir.run_folder, folder.runs)
        elif newest >= 0:
            paths.append(folder.checkpoints / str(newest))
        with tempfile.TemporaryDirectory() as scratch, self._errors():
            file, target = f"{scratch}/cohort.tar", f"{self._folder}/{folder.name}.tar"
            with tarfile.open(file, "w") as archive:
                for path in paths:
                    archive.add(path, path.relative_to(workdir.path))
            self._files.put_file(file, f"{target}.partial")
            self._files.mv(f"{target}.partial", target)

    def get(self, cohort: str, workdir: Path) -> None:
        """Replaces what a workdir holds of a cohort by what the store holds, if it holds anything."""
        with tempfile.TemporaryDirectory(prefix=".store-", dir=workdir) as scratch:
            with self._errors():
                try:
                    self._files.get_file(f"{self._folder}/{cohort}.tar", f"{scratch}/cohort.tar")
                except FileNotFoundError:
                    return
            with tarfile.open(f"{scratch}/cohort.tar") as archive:
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
            problem = f"the store cannot be used on {socket.gethostname()} ({first_line(error)})"
            remedy = "check the URL, the credentials, and variables such as AWS_ENDPOINT_URL"
            raise InputError(problem, path=self.url, remedy=remedy) from None


# The name of a method of `CohortDisplay` that a worker calls, and its arguments. "cohort" begins the display.
Event = tuple[Any, ...]


class _Reporter:
    """The display of a worker, which passes on all events but the plan, and uploads checkpoints."""

    def __init__(self, report: Callable[[Event], None], upload: Callable[[], None]):
        self._report, self._upload = report, upload

    def begin(self, plan: Plan, finished: set[str]) -> None:
        pass

    def cohort(self, folder: CohortFolder, dropped: Container[str]) -> "_Reporter":
        self._report(("cohort",))
        return self

    def __getattr__(self, method: str) -> Callable[..., None]:
        return lambda *arguments: self._report((method, *arguments))

    def saved(self) -> None:
        with contextlib.suppress(InputError):  # the store may be reached again at the next checkpoint
            self._upload()
            self._report(("saved",))


def _train(cohort: RemoteCohort, data: EncodedData, store: Store | None) -> Iterator[Event]:
    """Trains a cohort in a worker, as a task. Yields the events. `ray.cancel` leads to a checkpoint."""
    stop, events, host = threading.Event(), queue.SimpleQueue(), socket.gethostname()
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())

    def train() -> None:
        if store is None and not cohort.folder.path.exists():
            remedy = "give a --workdir on a file system that all nodes share, or --store"
            raise InputError(f"the worker on {host} does not reach this folder", path=cohort.folder.path, remedy=remedy)
        try:
            with store.local(cohort.folder) if store else contextlib.nullcontext(cohort.folder) as folder:
                upload = functools.partial(store.put, folder) if store else lambda: None
                dataclasses.replace(cohort, folder=folder).train(data, _Reporter(events.put, upload), stop)
        except OSError as error:
            remedy = "fix that there, or remove the node from the cluster, and run the same command again"
            raise InputError(f"the worker on {host} cannot continue ({first_line(error)})", remedy=remedy) from None

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        training = thread.submit(train)
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


def _measure() -> tuple[str, int, float]:
    """Measures a worker's device, as a task: its platform, bytes, and speed in multiply-adds per second."""
    device = jax.devices()[0]
    return device.platform, device_bytes(device), multiply_adds_per_second()


@dataclasses.dataclass
class _Attempt:
    """The tasks that train a cohort, one after another if workers die."""

    folder: CohortFolder
    deaths: int = 0  # of workers, since the last checkpoint
    shown: Any = None  # the display of the cohort, while a worker trains it

    def show(self, training: Training, method: str, *arguments: Any) -> None:
        """Displays an event of the worker. How training ended is displayed once the task is over."""
        if method == "cohort":
            self.shown = training.display.cohort(self.folder, training.dropped)
        elif method != "ended":
            getattr(self.shown, method)(*arguments)
            if method == "saved":
                self.deaths = 0

    def end(self, training: Training, death: str = "") -> bool:
        """Displays how a task has ended. Returns whether the cohort is done, has paused or has failed."""
        folder, ended = self.folder, True
        self.deaths += bool(death)
        if training.reached(folder):
            line = "done" if folder.done else PAUSED
        elif training.failed(folder):
            line = f"failed ({folder.failure_message()})"
        elif self.deaths == MOST_DEATHS:
            error = RuntimeError(f"{death}, {self.deaths} times without a new checkpoint")
            line = f"failed ({folder.mark_failed(error)})"
        else:
            line, ended = f"{death or 'its worker was told to stop'}; it resumes from its last checkpoint", False
        if self.shown is not None:
            self.shown.ended(line, folder.done)
            self.shown = None
        return ended


class RayEngine(Engine):
    """An engine that trains each cohort as a task of a Ray cluster, on a GPU if there are any, otherwise on CPUs.

    A task takes as many CPUs as XLA uses on this machine (`devices.cores`), or all CPUs of the largest node if it has
    fewer. The number of cores that XLA sees changes the last bits of its results, so workers use this number.

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
        self._ray, self._address, self._extend, self._url = ray, address, extend, store
        self._device: Any = None
        self._stores: dict[Path, Store] = {}  # workdir -> its store. The first workdir may hold the others.

    def begin(self, workdir: Path, dry_run: bool = False) -> None:
        # If this process used a GPU, it would take memory that workers need.
        jax.config.update("jax_platforms", "cpu")
        if self._device is None:
            self._connect()
            self._measure_cluster()
        if self._url and workdir not in self._stores and not dry_run:
            below = workdir.relative_to(next(iter(self._stores), workdir)).as_posix()
            store = self._stores[workdir] = Store(f"{self._url.rstrip('/')}/{below}".removesuffix("/."))
            workdir.mkdir(parents=True, exist_ok=True)
            for cohort in store.names() - {each.name for each in Workdir(workdir).cohorts() if each.done}:
                store.get(cohort, workdir)

    def _connect(self) -> None:
        """Connects to the cluster. Raises InputError if none answers, or if it runs other versions of Ray or Python."""
        place = self._address or os.environ.get("RAY_ADDRESS") or "auto"
        host, _, port = place.rpartition(":")
        try:
            if place != "auto":  # Ray itself would wait for two minutes
                socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
            self._ray.init(place, log_to_driver=False, logging_level=logging.CRITICAL)
        except (Exception, SystemExit) as error:  # Ray does not specify what it raises
            remedy = "start it with ray start --head, or give --on ray:HOST:PORT of a running one"
            raise InputError(f"Ray cannot be used at {place} ({first_line(error)})", remedy=remedy) from None

    def _measure_cluster(self) -> None:
        """Finds out how many tasks the nodes can run at once, and which device a task has.

        Raises InputError if there are no nodes for tasks, or if workers cannot use JAX or their GPUs.
        """
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        gpus, cpus = ([int(node.get(kind, 0)) for node in nodes] for kind in ("GPU", "CPU"))
        self._gpus, self._cpus = any(gpus), min(cores(), max(cpus, default=0))
        if not self._gpus and not self._cpus:
            raise InputError("no node of the Ray cluster has a CPU or GPU for tasks", remedy="add one with ray start")
        slots = gpus if self._gpus else [number // self._cpus for number in cpus]
        try:
            platform, memory, self._speed = self._ray.get(self._ray.remote(**self._options())(_measure).remote())
        except self._ray.exceptions.RayError as error:
            reason = first_line(getattr(error, "cause", None) or error)
            problem = f"a worker of the Ray cluster cannot use JAX ({reason})"
            raise InputError(problem, remedy="install this version of jaxmatch on all nodes") from None
        if self._gpus and platform == "cpu":
            problem = "the nodes of the Ray cluster have GPUs that JAX does not see there"
            raise InputError(problem, remedy="install jaxmatch[cuda12] or jaxmatch[cuda13] on them")
        share = memory if self._gpus else memory // max(slots)  # the tasks of a node share its memory
        self._device, self._slots = worker_device(platform, share), sum(slots)

    def _options(self) -> dict[str, Any]:
        """Returns the options of a task, such as the resources that it takes of a node."""
        environment, needs = variables(), {"num_gpus": 1, "num_cpus": 0, "max_calls": 1}
        if not self._gpus:  # Ray does not hide GPUs from a task that asks for none
            environment, needs = environment | {"JAX_PLATFORMS": "cpu"}, {"num_cpus": self._cpus}
        return {**needs, "max_retries": 0, "scheduling_strategy": "SPREAD", "runtime_env": {"env_vars": environment}}

    def plan(self, sweep: Sweep) -> Plan:
        return split_cohorts(make_plan(sweep, [self._device], self._speed), self._slots)

    def run(self, training: Training, folders: Sequence[CohortFolder]) -> bool:
        ray, errors = self._ray, self._ray.exceptions
        train, data, trained = ray.remote(**self._options())(_train), {}, False
        running: dict[Any, _Attempt] = {}
        plans = {folder.path: training.plan.cohort_of(folder.runs) for folder in folders}
        store = self._stores.get(folders[0].workdir.path)

        def submit(attempt: _Attempt) -> None:
            encoded = plans[attempt.folder.path].data
            if encoded.content not in data:
                data[encoded.content] = ray.put(encoded)
            cohort = RemoteCohort.of(training, attempt.folder, self._extend)
            running[train.remote(cohort, data[encoded.content], store)] = attempt

        with contextlib.redirect_stdout(sys.stderr):  # Ray prints about nodes that die; the table must stay alone
            try:
                for folder in sorted(folders, key=lambda folder: -plans[folder.path].seconds):
                    submit(_Attempt(folder))
                while running:
                    for events in ray.wait(list(running), timeout=SECONDS_BETWEEN_POLLS)[0]:
                        attempt, death = running[events], ""
                        try:
                            attempt.show(training, *ray.get(next(events)))
                            continue
                        except StopIteration:
                            pass
                        except errors.RayTaskError as error:
                            raise (error.cause if isinstance(error.cause, Exception) else error) from None
                        except errors.RayError as error:
                            death = f"its worker died ({type(error).__name__})"
                        if store is not None:
                            store.get(attempt.folder.name, attempt.folder.workdir.path)
                        del running[events]
                        if attempt.end(training, death):
                            trained = True
                        elif death:
                            submit(attempt)
                        elif store is not None:  # it may be a folder of the worker's own
                            problem = "the store does not hold what a worker has uploaded"
                            raise InputError(problem, path=store.url, remedy="give a --store that all nodes reach")
            finally:
                self._stop(training, running)
        return trained

    def _stop(self, training: Training, running: Mapping[Any, _Attempt]) -> None:
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
                attempt.end(training)

    def close(self) -> None:
        """Disconnects from the cluster."""
        self._ray.shutdown()
