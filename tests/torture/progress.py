"""A line that says how far a campaign is, and for how long it will go on."""

import sys
import time
from collections.abc import Mapping

# Seconds that an attack of a group takes, about, on two cores; corrected as they are made.
SECONDS = {"kills": 1.3, "launchers": 3.0, "limits": 1.0, "damage": 1.2, "inputs": 0.2, "answers": 30.0}


class Progress:
    """Shows progress on the standard error stream.

    Arguments:
      sizes: group -> how many attacks.
    """

    def __init__(self, sizes: Mapping[str, int]):
        self._left, self._shown, self._took = dict(sizes), 0.0, dict(SECONDS)
        self._began, self._made, self._group = time.monotonic(), 0, ""

    def made(self, group: str, count: int) -> None:
        """Counts attacks that have ended."""
        if group != self._group:
            self._group, self._began, self._made = group, time.monotonic(), 0
        self._made += count
        self._left[group] -= count
        self._took[group] = (time.monotonic() - self._began) / self._made
        if time.monotonic() - self._shown > 5 or not self._left[group]:
            self._shown = time.monotonic()
            minutes = sum(left * self._took.get(name, 1) for name, left in self._left.items()) / 60
            self.say(f"{group}: {self._made} made, {self._left[group]} to go; about {minutes:.0f} min left of all")

    def say(self, text: str) -> None:
        """Shows a line."""
        print(text, file=sys.stderr, flush=True)
