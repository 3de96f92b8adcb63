"""The time of commands that train a sweep, within a time limit and without leftover processes."""

import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import fresh_process
from jaxmatch.reporting.records import read_record

FIRST_STEPS = "first-steps.txt"  # a file in the workdir: see `first_step.py`
SECONDS_BETWEEN_POLLS, SECONDS_TO_END = 0.02, 30.0


class OutOfTime(Exception):
    """Raised when the time for all measurements is over."""


@dataclasses.dataclass(frozen=True)
class Command:
    """A command in a process of its own.

    Attributes:
      words: the words after `jaxmatch`.
      cores: the cores on which the command and its child processes run.
      variables: environment variables to set in addition.
    """

    words: Sequence[str]
    cores: Collection[int]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Timed:
    """The times of a trained sweep.

    Attributes:
      first_step: seconds from the start of the commands to the end of the first training step of any cohort.
      seconds: seconds from the start of the commands to the end of the last cohort.
      training: seconds in which a cohort was trained and scored, as its records say, averaged over the cohorts.
    """

    first_step: float
    seconds: float
    training: float


@contextlib.contextmanager
def _cpu_affinity(cores: Collection[int]) -> Iterator[None]:
    """Makes every process that starts in the block run on some cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def running(commands: Sequence[Command], log: Path) -> Iterator[list[subprocess.Popen]]:
    """Starts commands, each as the leader of a group of processes, and yields them. No group outlives the block."""
    processes: list[subprocess.Popen] = []
    try:
        for command in commands:
            with open(log, "ab") as file:
                words = [sys.executable, "-m", "jaxmatch", *command.words]
                env = {**fresh_process.with_this_checkout(), **command.variables}
                with _cpu_affinity(command.cores):
                    started = subprocess.Popen(
                        words, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
                    )
                processes.append(started)
        yield processes
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def group_exists(process: subprocess.Popen) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def timed(commands: Sequence[Command], workdir: Path, cohorts: int, until: float) -> Timed:
    """Starts commands that train one sweep together, and waits until the sweep is trained and the commands have ended.

    Arguments:
      commands: the commands, which start at the same time.
      workdir: the working folder of the sweep, which must be new.
      cohorts: the number of cohorts of the sweep.
      until: the time (`time.time`) by which everything must be over.

    Raises:
      OutOfTime: `until` has passed. All processes have been killed.
      RuntimeError: a command failed. The message ends with the output of the command.
    """
    log = workdir.with_name(f"{workdir.name}.log")
    began = time.time()
    with running(commands, log) as processes:
        while len(list(workdir.glob("cohorts/*/DONE"))) < cohorts:
            _check(processes, log, until)
            time.sleep(SECONDS_BETWEEN_POLLS)
        ended = max(file.stat().st_mtime for file in workdir.glob("cohorts/*/DONE"))
        until = min(until, time.time() + SECONDS_TO_END)
        while any(map(group_exists, processes)):
            _check(processes, log, until)
            time.sleep(SECONDS_BETWEEN_POLLS)
        _check(processes, log, until)
    steps = [float(line.split()[0]) for line in (workdir / FIRST_STEPS).read_text().splitlines()]
    times: dict[str, Any] = {}  # a cohort's times are in the record of each of its runs
    for file in workdir.glob("runs/*/record.json"):
        record = read_record(file)
        times[record["cohort"]] = record["times"]["train_seconds"] + record["times"]["evaluate_seconds"]
    return Timed(min(steps) - began, ended - began, sum(times.values()) / len(times))


def _check(processes: Sequence[subprocess.Popen], log: Path, until: float) -> None:
    for process in processes:
        if process.poll():
            raise RuntimeError(f"a command ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    if time.time() > until:
        raise OutOfTime


class RayNodes:
    """A Ray cluster on this machine (`ray_workers`). It ends with this process, however this process ends.

    Arguments:
      cores: the cores on which its first node runs.
      until: the time by which a node must have started.
    """

    def __init__(self, cores: Collection[int], until: float):
        self._until = until
        words = [sys.executable, "-m", "benchmarks.ray_workers", _core_list(cores)]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**fresh_process.with_this_checkout(), "RAY_USAGE_STATS_ENABLED": "0"},
            cwd="/",  # not the folder of a command
            start_new_session=True,
        )
        try:
            self.address = self._line()
        except BaseException:
            self.close()
            raise

    def add(self, cores: Collection[int]) -> None:
        """Adds a node."""
        self._process.stdin.write(f"{_core_list(cores)}\n".encode())
        self._process.stdin.flush()
        self._line()

    def _line(self) -> str:
        read = b""
        while not read.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, self._until - time.time()))
            if not ready:
                raise OutOfTime
            if not (more := os.read(self._process.stdout.fileno(), 1000)):
                raise RuntimeError("a Ray cluster could not be started on this machine")
            read += more
        return read.decode().strip()

    def close(self) -> None:
        """Ends all nodes."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


def _core_list(cores: Collection[int]) -> str:
    return ",".join(map(str, sorted(cores)))
