"""The time that is left, and the results of a stage, which are stored and outlast an interrupt."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxmatch.files import read_json, write_json


class Budget:
    """An amount of time that runs out.

    Arguments:
      seconds: the seconds from now on.
      to_begin: the seconds from now on in which something may begin; default: all.
    """

    def __init__(self, seconds: float, to_begin: float | None = None):
        now = time.monotonic()
        self._end = now + seconds
        self._begin_until = now + (seconds if to_begin is None else to_begin)

    def left(self) -> float:
        """Returns the seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def left_to_begin(self) -> float:
        """Returns the seconds in which something may still begin, at least 0."""
        return max(0.0, self._begin_until - time.monotonic())

    def share(self, part: float) -> "Budget":
        """Returns a budget with the same end. Something may begin only during the first `part` of the time that is
        left.
        """
        return Budget(self.left(), part * self.left())


class Stage:
    """The results of a stage, stored in one JSON file that is written again with every new result.

    Arguments:
      folder: the folder of this device's results.
      name: the name of the stage.
      about: the device, driver, versions, command, "commit" and whether it was "quick", which are stored with the
        results.
      changed: a function to call when the file has changed.

    Attributes:
      failed: the names of what failed since this command began. This command does not try it again.
      measured_with: the "commit", "driver" and "jax" that a measurement must have to count as current.
    """

    def __init__(self, folder: Path, name: str, about: Mapping[str, Any], changed: Callable[[], None] = lambda: None):
        self.name, self.folder, self._about, self._changed = name, folder, dict(about), changed
        self._file = folder / f"{name}.json"
        self.failed: set[str] = set()
        self.measured_with = {name: self._about.get(name) for name in ("commit", "driver")}
        self.measured_with["jax"] = self._about.get("versions", {}).get("jax")

    def found(self) -> dict[str, Any]:
        """Returns the results at these sizes, by name, from any commit."""
        kept = read_json(self._file) if self._file.exists() else {}
        return kept.get("found", {}) if kept.get("quick") == self._about.get("quick") else {}

    def is_current(self, found: Mapping[str, Any], inputs: Mapping[str, Any] | None = None) -> bool:
        """Returns whether a result has the present "commit", "driver" and "jax", and these inputs."""
        wanted = {**self.measured_with, **(inputs or {})}
        return all(found.get(name) == value for name, value in wanted.items())

    def keep(self, found: Mapping[str, Any]) -> None:
        """Stores results in place of the earlier ones."""
        write_json(self._file, {"stage": self.name, **self._about, "found": found})
        self._changed()


def duration(seconds: float) -> str:
    """Formats seconds for people: "45 s", "12 min"."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def say(line: str) -> None:
    print(line, flush=True)
