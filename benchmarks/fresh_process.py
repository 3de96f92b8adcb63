"""Work in a fresh process, as a user would start it, so that the interpreter and the imports count."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# PR_SET_PDEATHSIG of prctl(2), which sets the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


class ProcessFailed(RuntimeError):
    """Raised if the process of a benchmark failed. The message ends with the output of the process."""


def run(
    module: str, request: Mapping[str, Any], environment: Mapping[str, str] | None = None, seconds: float | None = None
) -> dict[str, Any]:
    """Runs `python -m module` with a request, and returns its answer.

    Arguments:
      module: the module to run. It calls `request` and `answer` of this file.
      request: the request, of plain values.
      environment: environment variables to set in addition.
      seconds: the time after which the process is killed; None: never.

    Returns:
      The answer, with "process_seconds", from before the start of the process to after its end, and "cpu_seconds",
      which do not depend on other work of the machine.

    Raises:
      ProcessFailed: the process failed, or it gave no answer.
      subprocess.TimeoutExpired: the process was killed.
    """
    variables = {**with_this_checkout(), **(environment or {})}
    began, busy = time.time(), _childrens_cpu()
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps({**request, "sent_at": began})],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    seconds = time.time() - began
    if done.returncode:
        raise ProcessFailed(f"{module} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    try:
        answered = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):  # no output, or output that a library wrote after the answer
        raise ProcessFailed(f"{module} gave no answer:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}") from None
    return {
        **answered,
        "process_seconds": seconds,
        "cpu_seconds": _childrens_cpu() - busy,
    }


def with_this_checkout() -> dict[str, str]:
    """Returns the environment variables of this process, with this checkout first on Python's path."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def end_with_parent() -> None:
    """Has this process killed when its parent ends, because it would otherwise keep the device.

    This works on Linux only.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _childrens_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def resident(field: str) -> int | None:
    """Returns the resident memory of this process in bytes: "VmRSS" now, "VmHWM" the peak since its start or since
    its peak was forgotten (memory_worker.py). None on systems without /proc.
    """
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
    except (OSError, StopIteration):
        return None


def request() -> dict[str, Any]:
    """Returns the request to this process, and "import_seconds", the time from before its start to this call."""
    end_with_parent()
    values = json.loads(sys.argv[1])
    return {**values, "import_seconds": time.time() - values["sent_at"]}


def answer(values: Mapping[str, Any]) -> None:
    """Prints the answer of this process."""
    print(json.dumps(values), flush=True)
