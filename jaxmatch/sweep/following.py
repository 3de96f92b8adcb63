"""Listeners that follow runs as they train: TensorBoard, or a class of the user."""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.sweep.launcher_files import load_module, load_named, user_file_errors

TENSORBOARD = "tensorboard"
METHODS = ("started", "evaluated", "ended")


@dataclasses.dataclass(frozen=True)
class FollowedRun:
    """A run in training.

    Attributes:
      name: the name of its folder, which stays the same when the run is resumed.
      sweep: the name of the sweep.
      folder: the folder that will hold its record and its model.
      seed: its seed.
      settings: its place in the grid: dotted name -> value, and "variant" -> the name of its variant if it has one.
      config: all its settings, as plain dicts.
    """

    name: str
    sweep: str
    folder: Path
    seed: int
    settings: Mapping[str, Any]
    config: Mapping[str, Any]


class RunListener:
    """Receives training events. Override the methods that you need.

    Calls never overlap, but many runs train at once: calls about other runs come between the start and the end of one.
    """

    def started(self, run: FollowedRun, curve: Sequence[Mapping[str, Any]]) -> None:
        """Called when training begins or is resumed.

        Arguments:
          run: the run.
          curve: its evaluations before this point, as in `evaluated`. Later evaluations that were already reported are
            computed and reported again.
        """

    def evaluated(self, run: FollowedRun, evaluation: Mapping[str, Any]) -> None:
        """Called after the run was evaluated on dev.

        Arguments:
          run: the run.
          evaluation: "samples" (pairs seen so far), "epoch", "train_loss", "learning_rate", and "dev", a dict of
            scores.
        """

    def ended(self, run: FollowedRun, record: Mapping[str, Any] | None) -> None:
        """Called when training ends.

        Arguments:
          run: the run.
          record: its record, as in record.json. None if training is not finished: the run failed, was interrupted, or
            waits at a rung of successive halving.
        """


class Following:
    """The listeners of a cohort's runs.

    A listener that raises an exception is removed, and training continues.

    Arguments:
      listeners: the listeners to call. A listener that fails is removed from this list.
      runs: the runs, in the order of the cohort.
      say: the function that prints a line.
    """

    _lock = threading.RLock()  # cohorts train side by side

    def __init__(self, listeners: list[RunListener], runs: Sequence[FollowedRun], say: Callable[[str], None]):
        self._listeners, self._runs, self._say = listeners, runs, say
        self._open: set[int] = set()

    def started(self, curves: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Calls `started` for all runs. `curves` holds the curve of each run so far."""
        for position, curve in enumerate(curves):
            self._call_listeners("started", position, [*curve])
            self._open.add(position)

    def evaluated(self, position: int, evaluation: Mapping[str, Any]) -> None:
        """Calls `evaluated` for a run of the cohort."""
        self._call_listeners("evaluated", position, evaluation)

    def ended(self, record_of: Callable[[FollowedRun], Mapping[str, Any] | None] = lambda run: None) -> None:
        """Calls `ended` for all runs that have started, with their records or None."""
        for position in sorted(self._open):
            self._call_listeners("ended", position, record_of(self._runs[position]) if self._listeners else None)
        self._open.clear()

    def _call_listeners(self, method: str, position: int, *values: Any) -> None:
        with self._lock:
            for listener in [*self._listeners]:
                try:
                    getattr(listener, method)(self._runs[position], *values)
                except Exception as error:
                    self._listeners.remove(listener)
                    name = type(listener).__name__
                    self._say(f"{name}.{method} failed ({type(error).__name__}: {error}); {name} is not called again")


def listeners_of(names: Iterable[str], workdir: Path) -> list[RunListener]:
    """Creates the listeners that a command line names.

    Arguments:
      names: the names, each "tensorboard", "module:Class" or "file.py:Class". A class is called without arguments.
      workdir: the folder of the sweep.

    Raises:
      InputError: a class does not exist, is not a listener, or cannot be created.
    """
    return [_listener(name, workdir) for name in dict.fromkeys(names)]


def _listener(name: str, workdir: Path) -> RunListener:
    if name == TENSORBOARD:
        from jaxmatch.sweep.tensorboard_log import TensorBoard

        return TensorBoard(workdir / TENSORBOARD)
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute.isidentifier():
        raise InputError(f"there is no log {name!r}", remedy=f"give --log {TENSORBOARD}, module:Class or file.py:Class")
    listener_class = _class_of(place, attribute)
    with user_file_errors(Path(place)):
        listener = listener_class()
    missing = [method for method in METHODS if not callable(getattr(listener, method, None))]
    if missing:
        raise InputError(f"{name} has no method {missing[0]}", remedy="derive it from jaxmatch.RunListener")
    return listener


def _class_of(place: str, attribute: str) -> Callable[[], Any]:
    if place.endswith(".py"):
        module = load_module(Path(place))
    else:
        module = load_named(place, "give --log module:Class or file.py:Class")
    listener_class = getattr(module, attribute, None)
    if not callable(listener_class):
        raise InputError(f"{place} has no class {attribute!r}", remedy="give --log module:Class")
    return listener_class
