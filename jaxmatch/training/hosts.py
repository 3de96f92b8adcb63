"""Communication between processes that train together, each with its own devices.

The processes run the same programs on arrays that span the devices of all processes. Values that are read from a clock,
a disk or a device's allocator can differ between processes, so process 0 decides and sends its decision to the others.
An error in one process ends all. In a single process, each function returns at once, without communication.
"""

import contextlib
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding

from jaxmatch.devices import is_out_of_memory
from jaxmatch.errors import InputError, first_line

Value = TypeVar("Value")

# If another process has died, its missing heartbeat makes JAX end this one within this time.
SECONDS_TO_END = 30
# Decisions are padded to powers of two from this number of bytes on, so that few programs are compiled to send them.
LEAST_BYTES = 1024


class OutOfStep(InputError):
    """Raised if training failed in one process, so that the processes cannot continue together."""


def is_multiprocess() -> bool:
    """Returns whether more than one process trains."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def local(devices: Any) -> list[jax.Device]:
    """Returns those of `devices` that belong to this process."""
    return [device for device in devices if not is_multiprocess() or device.process_index == jax.process_index()]


def decide(choose: Callable[[], Value]) -> Value:
    """Calls `choose` on process 0 and returns its result on every process.

    Process 0 runs the same command, so its pickle is safe to load.
    """
    if not is_multiprocess():
        return choose()
    if jax.process_index() == 0:
        value = choose()
        content = np.frombuffer(pickle.dumps(value), np.uint8)
        size = int(multihost_utils.broadcast_one_to_all(np.int32(content.size)))
    else:
        content = np.empty(0, np.uint8)
        size = int(multihost_utils.broadcast_one_to_all(np.int32(0)))
    padded = np.zeros(max(LEAST_BYTES, 1 << (size - 1).bit_length()), np.uint8)
    padded[: content.size] = content
    sent = multihost_utils.broadcast_one_to_all(padded)
    return value if jax.process_index() == 0 else pickle.loads(np.asarray(sent)[:size].tobytes())


def gather(tree: Any) -> Any:
    """Returns arrays that span the devices of all processes as NumPy arrays on every process."""
    return multihost_utils.process_allgather(tree, tiled=True) if is_multiprocess() else jax.device_get(tree)


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


@contextlib.contextmanager
def together() -> Iterator[None]:
    """A context in which an error ends this process, and thereby all others, if several processes train together.

    Raises:
      OutOfStep: the block raised an error.
    """
    try:
        yield
    except Exception as error:
        if not is_multiprocess():
            raise
        if isinstance(error, jax.errors.JaxRuntimeError) and not is_out_of_memory(error):
            time.sleep(SECONDS_TO_END)  # another process may have ended, which JAX reports
        raise OutOfStep(
            f"training failed on process {jax.process_index()} ({first_line(error)})",
            remedy="run the same command again on all hosts",
        ) from error
