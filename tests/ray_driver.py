"""A `jaxmatch` command on a Ray cluster, in its own process, whose lines are read as they arrive."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import small_sweep
from ray_nodes import Nodes

# Three cohorts of two runs.
RATES, SEEDS, AT_ONCE, EPOCHS = "0.01,0.003", 3, 2, 96
WORDS = (f"--seeds={SEEDS}", f"--grid.optimizer.learning_rate={RATES}")
WORDS += (f"--config.execution.maximum_replicas={AT_ONCE}",)
# With a checkpoint after each of many epochs, so that there is time to kill something.
LONG = (*WORDS, f"--config.training.epochs={EPOCHS}")


class Driver:
    """A command in its own process.

    Attributes:
      process: the process of the command.
      lines: the lines of standard error so far.
    """

    def __init__(self, files: Path, workdir: Path, *words: str, program: tuple[str, ...] = (), **variables: str):
        words = small_sweep.command(files, workdir, *words)
        self.process = small_sweep.start(words, *program, **{"JAX_PLATFORMS": "cpu", **variables})
        self.lines: list[str] = []

    @contextlib.contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Kills the process after some time, so that no line is awaited forever."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def until(self, text: str, seconds: float = 90.0) -> None:
        """Waits for a line that contains a text."""
        with self._within(seconds):
            for line in self.process.stderr:
                self.lines.append(line)
                if text in line:
                    return
        self.kill()  # the process must not run on into the next test
        pytest.fail(f"{text!r} never came: {''.join(self.lines)}")

    def kill(self) -> None:
        """Kills the process."""
        self.process.kill()
        self.ended()

    def ended(self, seconds: float = 120.0) -> tuple[int, str]:
        """Waits until the command ends, and returns the exit status and the output."""
        with self._within(seconds), self.process as process:
            self.lines += process.stderr.readlines()
            return process.wait(), process.stdout.read()

    def finished(self, workdir: Path) -> tuple[str, dict]:
        """Waits until the command succeeds, and returns its table and `small_sweep.results` of the folder."""
        status, table = self.ended()
        assert status == 0, "".join(self.lines)
        return table, small_sweep.results(workdir)


def on(nodes: Nodes, *words: str) -> tuple[str, ...]:
    """Returns the words of a command that runs on a cluster."""
    return ("--on", f"ray:{nodes.address}", *words)


def alone(files: Path, workdir: Path, **overrides: str) -> tuple[str, dict]:
    """Runs `LONG` with more settings in this process. Returns the table and `small_sweep.results` of the folder."""
    table, _ = small_sweep.launched(
        files,
        workdir,
        seeds=SEEDS,
        grid_overrides={"optimizer.learning_rate": RATES},
        overrides={"execution.maximum_replicas": str(AT_ONCE), "training.epochs": str(EPOCHS)} | overrides,
    )
    return table, small_sweep.results(workdir)
