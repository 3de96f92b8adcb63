"""The kernels of a program that a device spends its time on, from a trace of JAX's profiler."""

import collections
import math
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

# The number of kernels to report with their times, the slowest first.
SLOWEST = 25
LONGEST_NAME = 100
# The lines of a device's trace with the events that it ran: each stream of a GPU, one line of a TPU.
_LINES = re.compile(r"Stream #|XLA Ops$")
_DEVICE = re.compile(r"/device:(GPU|TPU):0\b")
# Names of kernels for matrix products by cuBLAS and by XLA's Triton.
_PRODUCT = re.compile(r"gemm|xmma|cutlass|nvjet|cublas|splitk|gemv|_dot", re.IGNORECASE)


def trace_steps(run: Callable[[], Any], steps: int) -> dict[str, Any]:
    """Traces some steps and returns their kernels.

    Arguments:
      run: a function that makes the steps and waits for their end.
      steps: the number of steps.

    Returns:
      "busy_seconds" of a step, in which at least one kernel runs; "span_seconds", from the first kernel to the end of
      the last one, divided by the number of steps; "product_seconds" of a step, in kernels for matrix products;
      "slowest": kernels with "name", "op" of the compiled program, and "count" and "seconds" in a step. Empty on a CPU.
    """
    with tempfile.TemporaryDirectory(prefix="jaxmatch-trace-") as folder:
        with jax.profiler.trace(folder):
            run()
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        return summary(events_of(jax.profiler.ProfileData.from_file(str(files[-1])).planes), steps) if files else {}


def traced(run: Callable[[], Any], steps: int) -> dict[str, Any]:
    """Returns the result of `trace_steps` under "trace", or the reason why it failed under "untraced"."""
    try:
        return {"trace": trace_steps(run, steps)}
    except Exception as error:
        # If the profiler does not work, the measurements must not be lost.
        return {"untraced": f"{type(error).__name__}: {error}"}


def events_of(planes: Iterable[Any]) -> list[tuple[str, str, float, float]]:
    """Returns the events of the first accelerator: (kernel, operation of the program, start and end in nanoseconds)."""
    found = []
    for plane in planes:
        if _DEVICE.match(plane.name):
            for line in plane.lines:
                if _LINES.match(line.name):
                    for event in line.events:
                        named = dict(event.stats)
                        op = str(named.get("hlo_op", ""))
                        found.append((event.name, op, event.start_ns, event.start_ns + event.duration_ns))
    return found


def summary(events: list[tuple[str, str, float, float]], steps: int) -> dict[str, Any]:
    """Computes the result of `trace_steps` from the events of a trace."""
    if not events:
        return {}
    durations: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for name, op, begin, end in events:
        durations[name[:LONGEST_NAME], op].append((end - begin) / 1e9)
    rows = [
        {"name": name, "op": op, "count": len(seconds) / steps, "seconds": sum(seconds) / steps}
        for (name, op), seconds in durations.items()
    ]
    rows.sort(key=lambda row: -row["seconds"])
    span = max(end for *_, end in events) - min(begin for *_, begin, _ in events)
    return {
        "busy_seconds": _covered(events) / 1e9 / steps,
        "span_seconds": span / 1e9 / steps,
        "product_seconds": sum(row["seconds"] for row in rows if is_product(row)),
        "slowest": rows[:SLOWEST],
    }


def _covered(events: Iterable[tuple[str, str, float, float]]) -> float:
    """Returns the nanoseconds in which at least one event takes place. Those of several streams may overlap."""
    total, covered_until = 0.0, -math.inf
    for begin, end in sorted((begin, end) for *_, begin, end in events):
        total += max(0.0, end - max(begin, covered_until))
        covered_until = max(covered_until, end)
    return total


def is_product(row: dict[str, Any]) -> bool:
    """Returns whether a kernel computes matrix products."""
    return bool(_PRODUCT.search(row["name"]) or _PRODUCT.search(row["op"]))
