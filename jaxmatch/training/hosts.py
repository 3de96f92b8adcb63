"""Communication between processes that train together, each with its own devices.

The processes run the same programs on arrays that span the devices of all processes. Values that are read from a clock,
a disk or a device's allocator can differ between processes, so process 0 decides and sends its decision to the others.
A process that ends with an error ends all: JAX notices the missing heartbeat. In a single process, each function
returns at once, without communication.
"""

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxmatch.errors import InputError, first_line

Value = TypeVar("Value")

# How long a process waits for the heartbeat of another one, which may have died.
SECONDS_WITHOUT_HEARTBEAT = 20
# Decisions are padded to powers of two from this number of bytes on, so that few programs are compiled to send them.
LEAST_BYTES = 1024


def join(coordinator: str | None = None, process: int | None = None, processes: int | None = None) -> None:
    """Connects this process to the others that train with it. What is None, JAX detects.

    Arguments:
      coordinator: HOST:PORT of process 0.
      process: the index of this process, from 0, of a number of `processes`.

    Raises:
      InputError: the processes cannot connect to each other.
    """
    if coordinator and not coordinator.rpartition(":")[2].isdigit():
        raise InputError(f"{coordinator} is not an address", remedy="give --coordinator HOST:PORT of process 0")
    seconds = SECONDS_WITHOUT_HEARTBEAT
    timeouts = {"heartbeat_timeout_seconds": seconds, "shutdown_timeout_seconds": seconds}
    try:
        jax.distributed.initialize(coordinator, processes, process, **timeouts)
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        raise InputError(
            f"the processes cannot connect to each other ({first_line(error).rstrip('.')})",
            remedy="give --coordinator HOST:PORT and --process I/N",
        ) from None
    if sys.stdout is not None:  # what libraries print goes to standard error, because the table must stay alone
        own = open(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
        os.dup2(2, sys.stdout.fileno())
        sys.stdout = own


def is_multiprocess() -> bool:
    """Returns whether more than one process trains."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def decide(choose: Callable[[], Value]) -> Value:
    """Calls `choose` on process 0 and returns its result on every process.

    Process 0 runs the same command, so its pickle is safe to load.
    """
    if not is_multiprocess():
        return choose()
    value = choose() if jax.process_index() == 0 else None
    content = np.frombuffer(pickle.dumps(value), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(content.size)))
    padded = np.zeros(max(LEAST_BYTES, 1 << (size - 1).bit_length()), np.uint8)
    padded[: content.size] = content
    sent = multihost_utils.broadcast_one_to_all(padded)
    return value if jax.process_index() == 0 else pickle.loads(np.asarray(sent)[:size].tobytes())


def gather(tree: Any) -> Any:
    """Returns arrays that span the devices of all processes as NumPy arrays on every process."""
    return multihost_utils.process_allgather(tree, tiled=True) if is_multiprocess() else jax.device_get(tree)
