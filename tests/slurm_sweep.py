"""The small sweep as jobs of Slurm."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_sweep

# Checkpoints are saved only on request. There are enough epochs to leave time for a request.
LONG = {"training.epochs": "40", "execution.checkpoint_seconds": "3600"}
SECONDS = 90.0


def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Waits until `condition` returns a true value, and returns that value."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def words(files: Path, workdir: Path, *more: str, **settings: str) -> list[str]:
    """Returns the words of a command with `LONG` and more settings."""
    settings = [f"--config.{name}={value}" for name, value in (LONG | settings).items()]
    return small_sweep.command(files, workdir, *settings, *more)


def log_of(workdir: Path) -> str:
    """Returns the output of all jobs."""
    return "".join(path.read_text() for path in sorted((workdir / "slurm").glob("*.out")))
