"""How much time is left, and what was found so far: both outlast what is interrupted."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxmatch.files import read_json, write_json


class Budget:
    """Time that runs out.

    Arguments:
      seconds: from now on.
      to_begin: seconds from now on in which something may begin; default: all.
    """

    def __init__(self, seconds: float, to_begin: float | None = None):
        now = time.monotonic()
        self._end = now + seconds
        self._begin_until = now + (seconds if to_begin is None else to_begin)

    def left(self) -> float:
        """Seconds, not below 0."""
        return max(0.0, self._end - time.monotonic())

    def left_to_begin(self) -> float:
        """Seconds in which something may still begin, not below 0."""
        return max(0.0, self._begin_until - time.monotonic())

    def share(self, part: float) -> "Budget":
        """A budget with the same end, in which only the first `part` of what is left is there to begin something."""
        return Budget(self.left(), part * self.left())


class Stage:
    """What a stage has found, kept in one JSON file: written anew whenever there is more.

    Arguments:
      folder: of this device's results.
      name: of the stage.
      about: the device, driver, versions, command, "commit" and whether it was "quick", kept with what is found.
      changed: called when the file has changed.

    Attributes:
      failed: what failed since this command began, and is not tried again by it.
      measured_with: what says whether a measurement is of today's code: "commit", "driver" and "jax".
    """

    def __init__(self, folder: Path, name: str, about: Mapping[str, Any], changed: Callable[[], None] = lambda: None):
        self.name, self.folder, self._about, self._changed = name, folder, dict(about), changed
        self._file = folder / f"{name}.json"
        self.failed: set[str] = set()
        self.measured_with = {name: self._about.get(name) for name in ("commit", "driver")}
        self.measured_with["jax"] = self._about.get("versions", {}).get("jax")

    def found(self) -> dict[str, Any]:
        """What was found at these sizes, by its name; of any commit."""
        kept = read_json(self._file) if self._file.exists() else {}
        return kept.get("found", {}) if kept.get("quick") == self._about.get("quick") else {}

    def is_current(self, found: Mapping[str, Any]) -> bool:
        """Whether something with "commit", "driver" and "jax" was measured with today's."""
        return all(found.get(name) == value for name, value in self.measured_with.items())

    def keep(self, found: Mapping[str, Any]) -> None:
        """Replaces what was found."""
        write_json(self._file, {"stage": self.name, **self._about, "found": found})
        self._changed()


def duration(seconds: float) -> str:
    """For people: "45 s", "12 min"."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def say(line: str) -> None:
    print(line, flush=True)
