"""Divides the time of a program among functions that it calls."""

import contextlib
import functools
import time
from collections.abc import Iterator
from typing import Any


class Watch:
    """Adds up the seconds spent in named parts; a part within a part counts once, as the inner one.

    Attributes:
      seconds: part -> seconds so far.
    """

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._inside: list[float] = []

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts what happens inside as `name`."""
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
        """Counts every call of `owner.function` as `name`, until the process ends."""
        watched = getattr(owner, function)

        @functools.wraps(watched)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.part(name):
                return watched(*arguments, **named)

        setattr(owner, function, timed)


def rest(whole: float, parts: dict[str, float]) -> float:
    """The seconds of a whole that are in no part."""
    return whole - sum(parts.values())
