"""Records when cohorts have made their first training step. A command and its workers load this file with --import.

WORKDIR/first-steps.txt    a line for each cohort that was begun: the time in seconds, and the cohort's name
"""

import time
from typing import Any

from benchmarks.timed_commands import FIRST_STEPS
from jaxmatch.sweep import claimed

_train = claimed._train


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


claimed._train = _train_and_record
