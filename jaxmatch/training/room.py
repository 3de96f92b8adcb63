"""How many replicas a device can compute at once: estimated from compiled programs, reduced if memory runs out."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import jax

from jaxmatch.training import hosts
from jaxmatch.training.progress import Listener

Value = TypeVar("Value")

# Of what an allocator grants; the rest is for what it cannot use between arrays, and for data that come and go.
SHARE_TO_USE = 0.95


class TooLarge(MemoryError):
    """Not even one replica fits a device, or memory ran out on one host of several alone."""


@dataclasses.dataclass(frozen=True)
class RanOut:
    """Memory ran out, and training went on with fewer replicas side by side.

    Attributes:
      part: what needed too much, "training" or "evaluation".
      after_steps: lockstep steps made by then.
      device: the kind of device.
      at_once: replicas that a device computed side by side.
      then_at_once: the most it did from then on.
    """

    part: str
    after_steps: int
    device: str
    at_once: int
    then_at_once: int


# Parts of messages about the memory of a device, and about that of one of its cores.
_OF_THE_DEVICE = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")
_OF_A_CORE = ("Shared memory size limit", "memory space vmem", "memory space smem")


def ran_out(error: Exception) -> bool:
    """Whether an error says that a device has too little memory for a program, when that is compiled or when it
    runs.

    Memory that CUDA and cuBLAS allocate outside XLA's pool counts. Memory of one core (shared memory of a GPU, vmem
    of a TPU) does not: a program for fewer replicas needs as much of it.
    """
    text = str(error)
    if not isinstance(error, jax.errors.JaxRuntimeError) or any(part in text for part in _OF_A_CORE):
        return False
    return any(part in text for part in _OF_THE_DEVICE)


def free_bytes(devices: Iterable[jax.Device]) -> int | None:
    """Bytes that a program may still allocate on each of the devices: the least of them.

    None where a device reports no memory statistics, such as a CPU. With several processes, the devices of process 0
    count.
    """

    def least() -> int | None:
        statistics = [device.memory_stats() or {} for device in hosts.local(devices)]
        if any("bytes_limit" not in each for each in statistics):
            return None
        return min(int(SHARE_TO_USE * each["bytes_limit"]) - each.get("bytes_in_use", 0) for each in statistics)

    return hosts.decide(least)


def bytes_beside_arguments(program: jax.stages.Compiled) -> int | None:
    """Bytes that a compiled program allocates on each device besides its arguments; None if XLA does not say."""
    analysis = program.memory_analysis()
    if analysis is None:
        return None
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes


def limit_that_fits(
    at_once: Callable[[int | None], int], compiled: Callable[[int], jax.stages.Compiled], limit: int | None, free: int
) -> int | None:
    """How many replicas side by side a device has memory for.

    The program for all replicas is compiled first; if it needs too much, one for fewer. More than three are rarely
    compiled, and the last is the one to run.

    Arguments:
      at_once: how many are computed side by side under a limit (replicas.py).
      compiled: the program that computes so many side by side.
      limit: what is known already.
      free: bytes that the program may take.

    Returns:
      The limit under which it fits, or 1.
    """
    while (side_by_side := at_once(limit)) > 1:
        try:
            needed = bytes_beside_arguments(compiled(side_by_side))
        except jax.errors.JaxRuntimeError as error:  # a TPU's compiler refuses what does not fit
            if not ran_out(error):
                raise
            limit = side_by_side // 2
            continue
        if needed is None or needed <= free:
            return limit
        limit = max(1, min(side_by_side - 1, side_by_side * free // needed))
    return limit


class Limited(Protocol):
    """What computes replicas side by side: a `Lockstep` or an `Evaluator`.

    Attributes:
      at_once: how many a device computes at once.
      limit: more do not fit a device; None: none is known.
    """

    limit: int | None

    @property
    def at_once(self) -> int: ...


class Limits:
    """How many replicas of a cohort are computed side by side, and what happens where they do not fit.

    Arguments:
      parts: "training" and "evaluation" -> what computes them.
      devices: that each part uses.
      steps: gives the lockstep steps made so far.

    Attributes:
      device_kind: of the devices.
      ran_out: how often the memory of one ran out so far, over all interruptions.
    """

    def __init__(self, parts: Mapping[str, Limited], devices: Sequence[jax.Device], steps: Callable[[], int]):
        self._parts, self._devices, self._steps = parts, len(devices), steps
        self.device_kind = devices[0].device_kind
        self.ran_out: list[RanOut] = []

    def within(self, part: str, compute: Callable[[], Value], listener: Listener) -> Value:
        """Calls `compute`, again with half as many replicas side by side as long as memory runs out.

        Raises:
          TooLarge: one replica at a time does not fit a device.
        """
        while True:
            try:
                return compute()
            except jax.errors.JaxRuntimeError as error:
                if not ran_out(error):
                    raise
                if not hosts.all_come():  # a host whose devices have room goes on, and cannot be followed
                    raise TooLarge(str(error)) from error
                self._compute_fewer(part, error)
                listener.ran_out(part, self.ran_out[-1].then_at_once * self._devices)

    def _compute_fewer(self, part: str, error: Exception) -> None:
        limited = self._parts[part]
        # What is computed at once is not known again before the pairs to answer are on the device.
        at_once = min(limited.at_once, limited.limit or limited.at_once)
        if at_once <= 1:  # 0: not even the pairs to answer
            raise TooLarge(f"one replica at a time does not fit in {part}") from error
        fewer = at_once // 2
        self.ran_out.append(RanOut(part, self._steps(), self.device_kind, at_once, fewer))
        limited.limit = fewer

    @contextlib.contextmanager
    def told(self, part: str, listener: Listener) -> Iterator[None]:
        """Tells the listener if a limit is found in the block."""
        limited = self._parts[part]
        before = limited.limit
        yield
        if limited.limit != before:
            listener.fitted(part, limited.at_once * self._devices)

    def recall(self, events: Sequence[RanOut]) -> None:
        """Takes over how often memory ran out before a checkpoint; devices of the same kind keep to what fitted
        then.
        """
        self.ran_out = [*events, *(event for event in self.ran_out if event not in events)]
        for event in self.ran_out:
            if event.device == self.device_kind:
                limited = self._parts[event.part]
                limited.limit = min(limited.limit or event.then_at_once, event.then_at_once)
