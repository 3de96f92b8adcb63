"""Training of cohorts as tasks of a Ray cluster (https://docs.ray.io), which decides where they run.

The workdir (on a file system that all nodes share) or an object store holds the state. A cohort whose worker or node
dies is resumed elsewhere from its last checkpoint. If the driver dies, the next command resumes all cohorts in the same
way. Ray itself retries nothing.
"""

import dataclasses
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxmatch.data.encoded import EncodedData
from jaxmatch.devices import cores, device_bytes
from jaxmatch.errors import InputError, first_line
from jaxmatch.store import StoreError
from jaxmatch.sweep import chunks, ray_cluster, worker
from jaxmatch.sweep.engines import Engine, Task, TaskContext
from jaxmatch.sweep.events import Replay
from jaxmatch.sweep.failures import MOST_DEATHS, Deaths, mark_failed
from jaxmatch.sweep.plan import SHARE_OF_PEAK, Plan, make_plan, multiply_adds_a_second
from jaxmatch.sweep.ray_places import ObjectStore, SharedFolder, TrainFunction
from jaxmatch.sweep.sweep import Sweep

SECONDS_BETWEEN_POLLS = 1.0
SECONDS_UNTIL_NOTICE = 10.0
# The time that workers have to write a checkpoint when they are told to stop.
SECONDS_TO_STOP = 60.0


def _train(
    order: worker.Order, data: EncodedData, train: TrainFunction, extend: Callable[[], None] | None, platform: str
) -> bool:
    """Trains a cohort in a worker, as a task. An interrupt, as by `ray.cancel`, and SIGTERM lead to a checkpoint.

    Raises:
      InputError: JAX does not use `platform` in the worker, or the worker's system prevents training, for example
        because the disk is full.
      StoreError: the worker cannot use the store.
    """
    stop, before = threading.Event(), {}
    terminated = threading.Event()

    def interrupt(number: int, frame: Any) -> None:
        stop.set()
        if number == signal.SIGTERM:
            terminated.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, interrupt)
    try:
        if extend is not None:
            extend()
        if jax.default_backend() != platform:  # a CPU would be many times slower than a GPU for no visible reason
            raise InputError(
                f"JAX finds no {platform} on the node {socket.gethostname()}",
                remedy="install the same packages there as on the others, or remove it from the cluster",
            )
        return train(dataclasses.replace(order, plan=worker.with_data(order.plan, data)), stop)
    except OSError as error:
        raise InputError(
            f"the worker on {socket.gethostname()} cannot continue ({first_line(error)})",
            remedy="fix that there, or remove the node from the cluster, and run the same command again",
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if terminated.is_set():
            os.kill(os.getpid(), signal.SIGTERM)


def _measure() -> tuple[str, str, int, float]:
    """Measures a worker's device, as a task: platform, kind, memory in bytes and multiply-adds a second."""
    device = jax.devices()[0]
    return device.platform, device.device_kind, device_bytes(device), multiply_adds_a_second()


@dataclasses.dataclass
class _Running:
    task: Task
    replay: Replay


class RayEngine(Engine):
    """An engine that trains each cohort as a task of a Ray cluster, on a GPU if there are any, otherwise on CPUs.

    A task takes as many CPUs as XLA uses on the driver (`devices.cores`), or all CPUs of the largest node if it has
    fewer. The number of cores that XLA sees changes the last bits of its results, so workers use the driver's number.
    From `begin` on, this process itself computes on CPUs.

    Arguments:
      address: HOST:PORT of the cluster's head. For "", see `ray_cluster.connect`.
      extend: a function that each worker calls first, to load extensions of the package.
      store: the URL of an object store, or "" if the workdir is on a file system that all nodes share.

    Raises:
      InputError: Ray is not installed, or the URL cannot be that of a store.
    """

    def __init__(self, address: str = "", extend: Callable[[], None] | None = None, store: str = ""):
        ray_cluster.import_ray()
        self._address, self._extend = address, extend
        self._place = ObjectStore(store) if store else SharedFolder()
        self._ray: Any = None
        self._device: worker.WorkerDevice | None = None
        self._deaths = Deaths()

    def begin(self, workdir: Path, name: str, dry_run: bool = False) -> None:
        # If the driver used a GPU, it would take memory that workers need.
        jax.config.update("jax_platforms", "cpu")
        if self._ray is None:
            self._ray = ray_cluster.connect(self._address)
        self._place.begin(self._ray, workdir, name, dry_run)
        nodes = ray_cluster.living_nodes(self._ray)
        self._gpus = any(node["Resources"].get("GPU", 0) >= 1 for node in nodes)
        self._cpus = int(min(cores(), max(node["Resources"].get("CPU", 0) for node in nodes)))
        if self._device is None:
            self._device, self._speed = self._measure_worker()

    @property
    def _platform(self) -> str:
        """The platform that workers must compute on."""
        return self._device.platform

    def _options(self) -> dict[str, Any]:
        """Returns the options of a task, such as the resources that it takes of a node."""
        needs = {"num_gpus": 1, "num_cpus": 0, "max_calls": 1} if self._gpus else {"num_cpus": self._cpus}
        return {**needs, "max_retries": 0, "scheduling_strategy": "SPREAD"}

    def _slots(self) -> int:
        """Returns how many tasks the current nodes can run at once."""
        resources = [node["Resources"] for node in ray_cluster.nodes(self._ray)]
        return sum(
            int(each.get("GPU", 0)) if self._gpus else int(each.get("CPU", 0) // self._cpus) for each in resources
        )

    def _measure_worker(self) -> tuple[worker.WorkerDevice, float]:
        """Returns the device of a worker, and its speed in multiply-adds a second."""
        ray = self._ray
        measurement = ray.remote(**self._options())(_measure).remote()
        if not ray.wait([measurement], timeout=SECONDS_UNTIL_NOTICE)[0]:
            sys.stderr.write("waiting for a free worker of the Ray cluster\n")
        try:
            platform, kind, memory_bytes, speed = ray.get(measurement)
        except ray.exceptions.RayError as error:
            raise InputError(
                f"a worker of the Ray cluster cannot use JAX ({first_line(error)})", remedy="see Ray's logs"
            ) from None
        if self._gpus and platform == "cpu":
            raise InputError(
                "the nodes of the Ray cluster have GPUs that JAX does not see there",
                remedy="install jaxmatch[cuda12] or jaxmatch[cuda13] on them",
            )
        workers_per_node = (
            1
            if self._gpus
            else max(int(node["Resources"].get("CPU", 0) // self._cpus) for node in ray_cluster.living_nodes(ray))
        )
        return worker.WorkerDevice(platform, kind, memory_bytes // max(1, workers_per_node)), speed

    def plan(self, sweep: Sweep) -> Plan:
        slots = max(1, self._slots())
        plan = dataclasses.replace(make_plan(sweep, [self._device]), slots=slots, speed=self._speed)
        return chunks.split(plan, slots, chunks.SECONDS_OF_A_START * self._speed * SHARE_OF_PEAK)

    def devices_for(self, runs: int) -> int:
        return 1

    def close(self) -> None:
        """Disconnects from the cluster."""
        self._place.close()
        if self._ray is not None:
            self._ray.shutdown()
            self._ray = None

    def run(self, tasks: Sequence[Task], context: TaskContext, more: Callable[[], Iterable[Task]] = tuple) -> bool:
        ray = self._ray
        remote = ray.remote(**self._options())(_train)
        waiting = sorted(tasks, key=lambda task: -task.duration)
        running: dict[Any, _Running] = {}
        data: dict[str, Any] = {}
        trained, idle = False, False
        try:
            while waiting or running:
                while waiting and len(running) < self._slots():
                    task = waiting.pop(0)
                    part, encoded = worker.part_of(context.plan, task.folder)
                    replay = Replay(context, task.folder, until_ended=True)
                    order = worker.Order(
                        part,
                        task.folder.name,
                        task.stage or context.stage,
                        context.before.get(task.folder.name),
                        replay.attempt,
                    )
                    if encoded.content not in data:
                        data[encoded.content] = ray.put(encoded)
                    train = self._place.prepare_cohort(task.folder, replay.attempt)
                    answer = remote.remote(order, data[encoded.content], train, self._extend, self._platform)
                    running[answer] = _Running(task, replay)
                if not running and not idle:
                    context.display.say("no node of the Ray cluster can train a cohort now; waiting for one")
                idle = not running
                if running:
                    done, _ = ray.wait(list(running), timeout=SECONDS_BETWEEN_POLLS)
                else:
                    done = []
                    time.sleep(SECONDS_BETWEEN_POLLS)
                self._place.poll()
                for each in running.values():
                    each.replay.poll()
                for answer in done:
                    ended = running.pop(answer)
                    self._place.take(ended.task.folder)
                    lost = self._outcome(answer, ended)
                    if isinstance(lost, bool):
                        trained |= lost
                    elif self._should_retry(ended.task, lost, context):
                        waiting.insert(0, ended.task)
                    else:
                        trained = True
                if done:
                    waiting[:0] = more()
        finally:
            self._stop(running)
        return trained

    def _outcome(self, answer: Any, ended: _Running) -> bool | str:
        """Returns whether a task that is over has trained its cohort, or how its worker died.

        Raises:
          Exception: the task raised this exception.
          InputError: Ray cannot run the task.
        """
        errors = self._ray.exceptions
        died = {
            errors.WorkerCrashedError: "its worker died",
            errors.NodeDiedError: "its node died",
            errors.LocalRayletDiedError: "its node died",
            errors.OutOfMemoryError: "its worker was killed because its node ran out of memory",
            errors.ObjectLostError: "its data was lost with a node",
        }
        try:
            trained = self._ray.get(answer)
        except tuple(died) as error:
            lost = next(words for kind, words in died.items() if isinstance(error, kind))
            ended.replay.ended(lost)
            return lost
        except errors.RayTaskError as error:
            if isinstance(error.cause, StoreError):
                lost = f"its worker lost the store ({error.cause.problem})"
                ended.replay.ended(lost)
                return lost
            ended.replay.ended("its training ended")
            raise (error.cause if isinstance(error.cause, Exception) else InputError(first_line(error))) from None
        except errors.RayError as error:
            ended.replay.ended("Ray could not run its task")
            raise InputError(
                f"Ray cannot train a cohort ({first_line(error)})",
                path=ended.task.folder.path,
                remedy="see Ray's logs, and run the same command to try again",
            ) from None
        ended.replay.ended("its worker was told to stop")
        return trained

    def _should_retry(self, task: Task, lost: str, context: TaskContext) -> bool:
        """Returns whether to retry a cohort whose worker died. Marks a cohort whose workers keep dying."""
        if (task.stage or context.stage).reached(task.folder):  # the worker died after that
            return False
        deaths = self._deaths.count(task.folder.name, task.folder.newest_checkpoint())
        if deaths < MOST_DEATHS:
            return True
        error = RuntimeError(f"{lost}, {deaths} times without a new checkpoint")
        context.display.say(f"cohort {task.folder.name}: failed ({mark_failed(task.folder, error)})")
        return False

    def _stop(self, running: dict[Any, _Running]) -> None:
        """Tells workers to stop, and waits until they have written their checkpoints."""
        if not running:
            return
        left = list(running)
        for answer in left:
            self._ray.cancel(answer)
        try:
            _, left = self._ray.wait(left, num_returns=len(left), timeout=SECONDS_TO_STOP)
        finally:
            # Not those that have just ended: if a task is cancelled at that moment, Ray ends this process.
            for answer in left:
                self._ray.cancel(answer, force=True)
            for each in running.values():
                each.replay.ended("its worker was told to stop")
