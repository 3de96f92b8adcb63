"""Which kernels of a program a device spends its time on, from a trace of JAX's profiler."""

import collections
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

# Kernels are told with their time, the slowest first, so many of them.
SLOWEST = 25
LONGEST_NAME = 100
# Lines of a device in a trace whose events are what it ran: of a GPU each stream, of a TPU one line.
_LINES = re.compile(r"Stream #|XLA Ops$")
_DEVICE = re.compile(r"/device:(GPU|TPU):0\b")
# Names of kernels for matrix products by cuBLAS and by XLA's Triton.
_PRODUCT = re.compile(r"gemm|xmma|cutlass|nvjet|cublas|splitk|gemv|_dot", re.IGNORECASE)


def of_steps(run: Callable[[], Any], steps: int) -> dict[str, Any]:
    """The kernels of steps.

    Arguments:
      run: makes so many steps and waits for their end.
      steps: their number.

    Returns:
      Of a step "busy_seconds", in which kernels run; "span_seconds", from the first kernel to the end of the last, by
      the number of steps; "product_seconds", of kernels for matrix products; "slowest": kernels with "name", "op" of
      the compiled program, "count" and "seconds". Empty on a CPU.
    """
    with tempfile.TemporaryDirectory(prefix="jaxmatch-trace-") as folder:
        with jax.profiler.trace(folder):
            run()
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        return summary(events_of(jax.profiler.ProfileData.from_file(str(files[-1])).planes), steps) if files else {}


def told(run: Callable[[], Any], steps: int) -> dict[str, Any]:
    """`of_steps` under "trace", or under "untraced" why that cannot be told."""
    try:
        return {"trace": of_steps(run, steps)}
    except Exception as error:
        # A profiler that cannot be had must not cost what was measured.
        return {"untraced": f"{type(error).__name__}: {error}"}


def events_of(planes: Iterable[Any]) -> list[tuple[str, str, float, float]]:
    """(kernel, operation of the compiled program, start and end in nanoseconds) of the first accelerator."""
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
    """What `of_steps` returns."""
    if not events:
        return {}
    together: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for name, op, begin, end in events:
        together[name[:LONGEST_NAME], op].append((end - begin) / 1e9)
    rows = [
        {"name": name, "op": op, "count": len(seconds) / steps, "seconds": sum(seconds) / steps}
        for (name, op), seconds in together.items()
    ]
    rows.sort(key=lambda row: -row["seconds"])
    span = max(end for *_, end in events) - min(begin for *_, begin, _ in events)
    return {
        "busy_seconds": sum(row["seconds"] for row in rows),
        "span_seconds": span / 1e9 / steps,
        "product_seconds": sum(row["seconds"] for row in rows if is_product(row)),
        "slowest": rows[:SLOWEST],
    }


def is_product(row: dict[str, Any]) -> bool:
    """Whether a kernel computes matrix products."""
    return bool(_PRODUCT.search(row["name"]) or _PRODUCT.search(row["op"]))
