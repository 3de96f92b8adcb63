"""Jobs that run at the same time, each in its own thread and on its own devices."""

import concurrent.futures
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax

# Waits are short because another thread may raise an interrupt again (cli/interrupts.py), which does not end a wait.
SECONDS_BETWEEN_POLLS = 1.0


class Stopped(BaseException):
    """Raised to end a job that is told to stop. It is no `Exception`, so it does not count as a failure of the job."""


@dataclasses.dataclass(frozen=True)
class DeviceJob:
    """Work to do on some devices.

    Attributes:
      devices: the number of devices that the job takes.
      duration: the duration of the job in proportion to the other jobs.
      run: the function that does the work. It takes that many devices, and an event that is set when it must stop.
    """

    devices: int
    duration: float
    run: Callable[[tuple[jax.Device, ...], threading.Event], Any]


def run_jobs(jobs: Sequence[DeviceJob], devices: Sequence[jax.Device]) -> list[Any]:
    """Runs jobs on devices: the longest first, and others at the same time on the devices that it leaves free.

    As long as no two jobs fit on the devices together, jobs run in this thread, in the given order.

    Arguments:
      jobs: the jobs, none of which takes more devices than there are.
      devices: the devices that the jobs share.

    Returns:
      The results of the jobs, in their order.

    Raises:
      BaseException: the first job that failed raised it, or this thread was interrupted, for example by Ctrl-C. All
        jobs that had begun have stopped by then.
    """
    stop, waiting, returned = threading.Event(), list(range(len(jobs))), {}
    while waiting and (len(waiting) < 2 or sum(sorted(jobs[number].devices for number in waiting)[:2]) > len(devices)):
        number = waiting.pop(0)
        returned[number] = jobs[number].run(tuple(devices[: jobs[number].devices]), stop)
    if not waiting:
        return [returned[number] for number in range(len(jobs))]
    free = list(devices)
    waiting.sort(key=lambda number: -jobs[number].duration)
    running: dict[concurrent.futures.Future, tuple[int, tuple[jax.Device, ...]]] = {}
    with concurrent.futures.ThreadPoolExecutor(len(devices)) as threads:
        try:
            while waiting or running:
                for number in list(waiting):
                    if jobs[number].devices <= len(free):
                        taken, free = tuple(free[: jobs[number].devices]), free[jobs[number].devices :]
                        running[threads.submit(jobs[number].run, taken, stop)] = number, taken
                        waiting.remove(number)
                done, _ = concurrent.futures.wait(running, SECONDS_BETWEEN_POLLS, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    number, taken = running.pop(future)
                    free = sorted((*free, *taken), key=list(devices).index)
                    returned[number] = future.result()
        finally:
            stop.set()
    return [returned[number] for number in range(len(jobs))]
