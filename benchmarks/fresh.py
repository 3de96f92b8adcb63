"""Work in a process of its own, as a user would start it: interpreter, imports and all."""

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
# Of prctl(2): the signal that a process gets when the one that started it ends.
_SIGNAL_AT_THE_END_OF_ITS_PARENT = 1


class ProcessFailed(RuntimeError):
    """A process of a benchmark failed; the message ends with what it said."""


def run(
    module: str, asked: Mapping[str, Any], environment: Mapping[str, str] | None = None, seconds: float | None = None
) -> dict[str, Any]:
    """Starts `python -m module`, which answers with `answer`, and waits for its end.

    Arguments:
      module: calls `asked` and `answer` of this file.
      asked: plain values for it.
      environment: environment variables to set in addition.
      seconds: after which it is killed.

    Returns:
      What it answered, with "process_seconds", from before its start to after its end, and "cpu_seconds", which a
      machine that does other things as well leaves as they are.

    Raises:
      ProcessFailed: it did.
      subprocess.TimeoutExpired: it was killed.
    """
    variables = {**with_this_checkout(), **(environment or {})}
    began, busy = time.time(), _childrens_cpu()
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps({**asked, "asked_at": began})],
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
    except (IndexError, ValueError):  # nothing, or something that a library wrote behind it
        raise ProcessFailed(f"{module} gave no answer:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}") from None
    return {
        **answered,
        "process_seconds": seconds,
        "cpu_seconds": _childrens_cpu() - busy,
    }


def with_this_checkout() -> dict[str, str]:
    """The variables of this process, with this checkout before all else on Python's path."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def end_with_parent() -> None:
    """Has this process killed when its parent ends, since it would keep the device.

    Linux alone can.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SIGNAL_AT_THE_END_OF_ITS_PARENT, signal.SIGKILL)


def _childrens_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def asked() -> dict[str, Any]:
    """In the process: what it was asked, and "import_seconds", from before its start to this call."""
    end_with_parent()
    values = json.loads(sys.argv[1])
    return {**values, "import_seconds": time.time() - values["asked_at"]}


def answer(values: Mapping[str, Any]) -> None:
    """In the process: its answer."""
    print(json.dumps(values), flush=True)
