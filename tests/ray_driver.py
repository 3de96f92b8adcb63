"""A `jaxmatch` command on a Ray cluster, in its own process, whose lines are read as they arrive."""

import queue
import threading
import time
from pathlib import Path

import pytest
import small_sweep
from ray_nodes import Nodes

# Three cohorts of two runs.
RATES, SEEDS, AT_ONCE, EPOCHS = "0.01,0.003", 3, 2, 96
WORDS = (
    f"--seeds={SEEDS}",
    f"--grid.optimizer.learning_rate={RATES}",
    f"--config.execution.maximum_replicas={AT_ONCE}",
)
# With a checkpoint after each of many epochs, so that there is time to kill something.
LONG = (*WORDS, f"--config.training.epochs={EPOCHS}")


class Driver:
    """A command in its own process.

    Attributes:
      process: the process of the command.
      lines: the lines of standard error so far.
    """

    def __init__(
        self,
        files: Path,
        workdir: Path,
        *words: str,
        program: tuple[str, ...] = (),
        command: str = "sweep",
        **variables: str,
    ):
        words = [command, *small_sweep.command(files, workdir, *words)[1:]]
        self.process = small_sweep.start(words, *program, **{"JAX_PLATFORMS": "cpu", **variables})
        self.lines: list[str] = []
        self._new: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line)
            self._new.put(line)
        self._new.put(None)

    def until(self, text: str, seconds: float = 90.0) -> str:
        """Waits for a line that contains a text, and returns the line."""
        end, line = time.monotonic() + seconds, ""
        while text not in line:
            try:
                line = self._new.get(timeout=max(0.1, end - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:  # the process must not run on into the next test
                self.process.kill()
                self._close()
                pytest.fail(f"{text!r} never came: {''.join(self.lines)}")
        return line

    def kill(self) -> None:
        """Kills the process."""
        self.process.kill()
        self.ended()

    def ended(self, seconds: float = 120.0) -> tuple[int, str]:
        """Waits until the command ends, and returns the exit status and the output."""
        output = self.process.stdout.read()
        status = self.process.wait(timeout=seconds)
        self._close()
        return status, output

    def _close(self) -> None:
        self.process.wait()
        self._reader.join(timeout=10)
        self.process.stdout.close()
        self.process.stderr.close()

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


def refused(driver: Driver, *texts: str) -> None:
    status, output = driver.ended()
    assert (status, output) == (2, ""), driver.lines
    (line,) = driver.lines
    assert line.startswith("jaxmatch: ") and all(text in line for text in texts), line
