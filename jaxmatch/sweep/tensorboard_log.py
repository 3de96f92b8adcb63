"""TensorBoard logs of runs: a folder of event files for each run."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import NotInstalled
from jaxmatch.sweep.following import FollowedRun, RunListener


class TensorBoard(RunListener):
    """A listener that writes the curves of runs for TensorBoard. A step is one pair seen in training.

    Arguments:
      folder: the folder to write to. Each run has a subfolder with its name.

    Raises:
      InputError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path):
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise NotInstalled("--log tensorboard", "TensorBoard", "tensorboard") from None
        self._folder, self._make_writer = Path(folder), EventFileWriter
        self._events, self._summaries = event_pb2, summary_pb2
        self._writers: dict[str, Any] = {}

    def started(self, run: FollowedRun, curve: Sequence[Mapping[str, Any]]) -> None:
        self._close(run)
        folder = self._folder / run.name
        known = any(folder.glob("events.out.tfevents.*"))
        writer = self._writers[run.name] = self._make_writer(str(folder))
        # Tells readers to drop the events of earlier files from this step on, because they are written again.
        log = self._events.SessionLog(status=self._events.SessionLog.START)
        begin = curve[-1]["samples"] + 1 if curve and known else 0
        writer.add_event(self._events.Event(wall_time=time.time(), step=begin, session_log=log))
        for evaluation in [] if known else curve:
            self.evaluated(run, evaluation)
        writer.flush()

    def evaluated(self, run: FollowedRun, evaluation: Mapping[str, Any]) -> None:
        values = {"train/loss": evaluation["train_loss"], "learning_rate": evaluation["learning_rate"]}
        self._write(run, evaluation["samples"], values | _named("dev", evaluation["dev"]))

    def ended(self, run: FollowedRun, record: Mapping[str, Any] | None) -> None:
        if record is not None and record["test"] and record["selected_at_samples"] is not None:
            self._write(run, record["selected_at_samples"], _named("test", record["test"]))
        self._close(run)

    def _write(self, run: FollowedRun, step: int, values: Mapping[str, float | None]) -> None:
        value = self._summaries.Summary.Value
        summary = self._summaries.Summary(
            value=[value(tag=tag, simple_value=number) for tag, number in values.items() if number is not None]
        )
        writer = self._writers[run.name]
        writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))
        writer.flush()

    def _close(self, run: FollowedRun) -> None:
        if writer := self._writers.pop(run.name, None):
            writer.close()


def _named(split: str, scores: Mapping[str, float | None]) -> dict[str, float | None]:
    return {f"{split}/{name}": value for name, value in scores.items()}
