"""Records when cohorts have made their first training step. A command and its workers load this file with --import.

WORKDIR/first-steps.txt    a line for each cohort that was begun: the time in seconds, and the cohort's name

A job of `--on slurm:local` also takes a core of its own, one of those that the variable `CORES` names.
"""

import os
import sys
import time
from typing import Any

from filelock import FileLock, Timeout

from benchmarks.timed_commands import CORES, FIRST_STEPS
from jaxmatch.sweep import claimed

_train = claimed._train
_held: list[FileLock] = []


class _FirstStepListener:
    """A listener that records the end of the first step and passes every call on to another listener."""

    def __init__(self, listener: Any, folder: Any, workdir: Any):
        self._listener, self._folder, self._file, self._recorded = listener, folder, workdir.path / FIRST_STEPS, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def stepped(self, done: int, total: int) -> None:
        if not self._recorded:
            self._recorded = True
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(f"{time.time()} {self._folder.name}\n")
        self._listener.stepped(done, total)


def _train_and_record(plan: Any, folder: Any, workdir: Any, listener: Any, stage: Any, devices: Any) -> bool:
    return _train(plan, folder, workdir, _FirstStepListener(listener, folder, workdir), stage, devices)


def pin_to_free_core(cores: str, folder: str) -> None:
    """Pins this thread, and the threads that it will start, to the first of some cores that no other job has taken."""
    for place, core in enumerate(cores.split(",")):
        lock = FileLock(os.path.join(folder, f"core-{place}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        _held.append(lock)
        os.sched_setaffinity(0, {int(core)})
        return


claimed._train = _train_and_record
if (cores := os.environ.get(CORES)) and sys.argv[0].endswith("_submit.py"):
    pin_to_free_core(cores, sys.argv[1])
