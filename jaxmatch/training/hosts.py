"""Communication between processes that train together, each with its own devices.

The processes run the same programs on arrays that span the devices of all processes. Values that are read from a clock,
a disk or a device's allocator can differ between processes, so process 0 decides and sends its decision to the others.
In a single process, each function returns at once, without communication.
"""

import dataclasses
import pickle
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax._src import distributed  # the store of keys and values has no public name
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding

from jaxmatch.errors import InputError

Value = TypeVar("Value")

# The key-value store takes messages of less than 4 MiB.
PIECE = 2 * 2**20
# One process may compile or read while the others wait. A dead process is detected sooner, by its heartbeat.
MILLISECONDS_TO_WAIT = 24 * 3600 * 1000
MILLISECONDS_TO_MEET = 60 * 1000
# If another process has died, JAX ends this one within this time.
SECONDS_TO_END = 3


class CohortFailed(Exception):
    """Raised in a process that waits for a decision about a cohort that failed on process 0."""


class OutOfStep(InputError):
    """Raised if the processes cannot continue together."""


@dataclasses.dataclass
class _Counters:
    """The number of meetings so far, and of messages and common failures since.

    They are the same in all processes, unless a process fails alone.
    """

    meeting: int = 0
    message: int = 0
    failure: int = 0


_counters = _Counters()


def is_multiprocess() -> bool:
    """Returns whether more than one process trains."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_primary() -> bool:
    """Returns whether this is the process that decides and writes."""
    return not is_multiprocess() or jax.process_index() == 0


def local(devices: Any) -> list[jax.Device]:
    """Returns those of `devices` that belong to this process."""
    return [device for device in devices if not is_multiprocess() or device.process_index == jax.process_index()]


def decide(choose: Callable[[], Value]) -> Value:
    """Calls `choose` on process 0 and returns its result on every process.

    Raises:
      CohortFailed: process 0 has left the cohort. Only the other processes raise this.
    """
    if not is_multiprocess():
        return choose()
    if is_primary():
        value = choose()
        _send(value)
        return value
    value = _receive()
    if isinstance(value, CohortFailed):
        raise value
    return value


def gather(tree: Any) -> Any:
    """Returns arrays that span the devices of all processes as NumPy arrays on every process."""
    if not is_multiprocess():
        return jax.device_get(tree)
    # A collective on CPUs does not wait long, so the processes wait for each other before it.
    _store().wait_at_barrier(f"jaxmatch/gather/{_next()}", MILLISECONDS_TO_WAIT)
    return multihost_utils.process_allgather(tree, tiled=True)


def place(tree: Any, sharding: NamedSharding) -> Any:
    """Puts arrays that are the same on every process on the devices of all processes. Each process fills its own."""
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def placed(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.jit(lambda array: array, out_shardings=sharding)(leaf)
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(placed, tree)


def synchronize(error: Exception | None = None) -> None:
    """Waits until every process is done with a cohort.

    Arguments:
      error: the error with which training failed in this process, if it failed. An error of process 0 makes the other
        processes leave the cohort, too, wherever they wait for a decision.

    Raises:
      OutOfStep: another process does not arrive in time.
    """
    if not is_multiprocess():
        return
    if error is not None and is_primary():
        _send(CohortFailed())
    _counters.meeting, _counters.message, _counters.failure = _counters.meeting + 1, 0, 0
    try:
        _store().wait_at_barrier(f"jaxmatch/meeting/{_counters.meeting}", MILLISECONDS_TO_MEET)
    except jax.errors.JaxRuntimeError:
        time.sleep(SECONDS_TO_END)
        where = "another host" if error is None else f"process {jax.process_index()} alone ({error})"
        raise OutOfStep(f"training failed on {where}", remedy="run the same command again on all hosts") from None
    if is_primary():
        _store().key_value_delete(f"jaxmatch/message/{_counters.meeting - 1}/")


def all_arrive() -> bool:
    """Returns whether every process reaches this point in time.

    A process that continues without a failure does not reach it.
    """
    if not is_multiprocess():
        return True
    _counters.failure += 1
    # Processes that failed at different messages do not meet.
    name = f"jaxmatch/all/{_counters.meeting}/{_counters.message}/{_counters.failure}"
    try:
        _store().wait_at_barrier(name, MILLISECONDS_TO_MEET)
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _store() -> Any:
    return distributed.global_state.client


def _next() -> str:
    _counters.message += 1
    return f"{_counters.meeting}/{_counters.message}"


def _send(value: Any) -> None:
    """Sends a value to all other processes."""
    key, pickled = f"jaxmatch/message/{_next()}", pickle.dumps(value)
    pieces = [pickled[start : start + PIECE] for start in range(0, len(pickled), PIECE)]
    for number, piece in enumerate(pieces[1:], start=1):
        _store().key_value_set_bytes(f"{key}/{number}", piece)
    _store().key_value_set_bytes(f"{key}/0", len(pieces).to_bytes(4, "little") + pieces[0])


def _receive() -> Any:
    """Receives the next value from process 0. The sender runs the same command, so its pickle is safe to load."""
    key = f"jaxmatch/message/{_next()}"
    begin = _store().blocking_key_value_get_bytes(f"{key}/0", MILLISECONDS_TO_WAIT)
    rest = (
        _store().blocking_key_value_get_bytes(f"{key}/{number}", MILLISECONDS_TO_WAIT)
        for number in range(1, int.from_bytes(begin[:4], "little"))
    )
    return pickle.loads(b"".join([begin[4:], *rest]))
