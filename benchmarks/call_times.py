"""The time of a program, divided among the functions that it calls."""

import contextlib
import functools
import time
from collections.abc import Iterator
from typing import Any


class Watch:
    """A stopwatch for named parts of a program. The time of a part within another part counts only for the inner one.

    Attributes:
      seconds: part -> its seconds so far.
    """

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._inside: list[float] = []

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts the time of the block as `name`."""
        self._inside.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            whole = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + whole - self._inside.pop()
            if self._inside:
                self._inside[-1] += whole

    def on(self, owner: Any, function: str, name: str) -> None:
        """Counts the time of every call of `owner.function` as `name`, until the process ends."""
        watched = getattr(owner, function)

        @functools.wraps(watched)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.part(name):
                return watched(*arguments, **named)

        setattr(owner, function, timed)


def unattributed(whole: float, parts: dict[str, float]) -> float:
    """Returns the seconds of a whole that belong to no part."""
    return whole - sum(parts.values())
