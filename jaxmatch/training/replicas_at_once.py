"""The number of replicas that a device computes at once: estimated from programs, and reduced if memory runs out."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import jax

from jaxmatch.devices import is_out_of_memory
from jaxmatch.training import hosts
from jaxmatch.training.progress import Listener

Value = TypeVar("Value")

# The share of an allocator's memory to use. The rest is for gaps between arrays, and for data that come and go.
SHARE_TO_USE = 0.95


class TooLarge(MemoryError):
    """Raised if not even one replica fits a device, or if memory ran out on only one of several hosts."""


@dataclasses.dataclass(frozen=True)
class RanOut:
    """An event in which memory ran out, and training continued with fewer replicas side by side.

    Attributes:
      part: the part that needed too much memory, "training" or "evaluation".
      after_steps: the number of lockstep steps made by then.
      device: the kind of device.
      at_once: the number of replicas that a device computed side by side.
      then_at_once: the most replicas that a device computed side by side from then on.
    """

    part: str
    after_steps: int
    device: str
    at_once: int
    then_at_once: int


def free_bytes(devices: Iterable[jax.Device]) -> int | None:
    """Returns the bytes that a program may still allocate on every device, that is, the minimum over the devices.

    Returns None if a device, such as a CPU, reports no memory statistics. With several processes, only the devices of
    process 0 count.
    """

    def least() -> int | None:
        statistics = [device.memory_stats() or {} for device in hosts.local(devices)]
        if any("bytes_limit" not in each for each in statistics):
            return None
        return min(int(SHARE_TO_USE * each["bytes_limit"]) - each.get("bytes_in_use", 0) for each in statistics)

    return hosts.decide(least)


def bytes_beside_arguments(program: jax.stages.Compiled) -> int | None:
    """Returns the bytes that a program allocates on each device besides its arguments, or None if XLA does not say."""
    analysis = program.memory_analysis()
    if analysis is None:
        return None
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes


def limit_that_fits(
    at_once: Callable[[int | None], int], compiled: Callable[[int], jax.stages.Compiled], limit: int | None, free: int
) -> int | None:
    """Returns a limit on the replicas side by side for which a device has enough memory.

    The program for all replicas is compiled first. If it needs too much memory, a program for fewer replicas is
    compiled. More than three programs are rarely compiled, and the last one is the one to run.

    Arguments:
      at_once: a function that returns how many replicas are computed side by side under a limit (replicas.py).
      compiled: a function that returns the program for a number of replicas side by side.
      limit: the limit known so far; None: no limit is known.
      free: the bytes that the program may allocate.

    Returns:
      The limit under which the program fits, or 1. It is the argument `limit` if the first program fits.
    """
    while (side_by_side := at_once(limit)) > 1:
        try:
            needed = bytes_beside_arguments(compiled(side_by_side))
        except jax.errors.JaxRuntimeError as error:  # a TPU's compiler rejects a program that does not fit
            if not is_out_of_memory(error):
                raise
            limit = side_by_side // 2
            continue
        if needed is None or needed <= free:
            return limit
        limit = max(1, min(side_by_side - 1, side_by_side * free // needed))
    return limit


class Limited(Protocol):
    """An object that computes replicas side by side: a `Lockstep` or an `Evaluator`.

    Attributes:
      at_once: the number of replicas that a device computes at once.
      limit: the most replicas that fit a device; None: no limit is known.
    """

    limit: int | None

    @property
    def at_once(self) -> int: ...


class Limits:
    """The limits on the replicas of a cohort that are computed side by side, reduced if memory runs out.

    Arguments:
      parts: "training" and "evaluation" -> the object that computes the part.
      devices: the devices that each part uses.
      steps: a function that returns the number of lockstep steps made so far.

    Attributes:
      device_kind: the kind of the devices.
      ran_out: the events in which memory ran out so far, over all interruptions.
    """

    def __init__(self, parts: Mapping[str, Limited], devices: Sequence[jax.Device], steps: Callable[[], int]):
        self._parts, self._devices, self._steps = parts, len(devices), steps
        self.device_kind = devices[0].device_kind
        self.ran_out: list[RanOut] = []

    def retry_with_fewer_replicas(self, part: str, compute: Callable[[], Value], listener: Listener) -> Value:
        """Calls `compute`. As long as memory runs out, calls it again with half as many replicas side by side.

        Raises:
          TooLarge: a device does not have enough memory for one replica at a time.
        """
        while True:
            try:
                return compute()
            except jax.errors.JaxRuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if not hosts.all_arrive():  # a host whose devices have enough memory continues alone
                    raise TooLarge(str(error)) from error
                self._halve_limit(part, error)
                listener.ran_out(part, self.ran_out[-1].then_at_once * self._devices)

    def _halve_limit(self, part: str, error: Exception) -> None:
        limited = self._parts[part]
        # After its limit was lowered, an evaluator updates `at_once` only once its pairs are on the devices.
        at_once = min(limited.at_once, limited.limit or limited.at_once)
        if at_once <= 1:  # 0: not even the pairs to predict fit
            raise TooLarge(f"one replica at a time does not fit in {part}") from error
        fewer = at_once // 2
        self.ran_out.append(RanOut(part, self._steps(), self.device_kind, at_once, fewer))
        limited.limit = fewer

    @contextlib.contextmanager
    def reported(self, part: str, listener: Listener) -> Iterator[None]:
        """Tells the listener if the block changes the limit of `part`."""
        limited = self._parts[part]
        before = limited.limit
        yield
        if limited.limit != before:
            listener.fitted(part, limited.at_once * self._devices)

    def restore_events(self, events: Sequence[RanOut]) -> None:
        """Restores the out-of-memory events before a checkpoint, and their limits for devices of the same kind."""
        self.ran_out = [*events, *(event for event in self.ran_out if event not in events)]
        for event in self.ran_out:
            if event.device == self.device_kind:
                limited = self._parts[event.part]
                limited.limit = min(limited.limit or event.then_at_once, event.then_at_once)
