"""The half-written checkpoints that a killed save leaves."""

import shutil
from pathlib import Path


def half_written(checkpoints: Path) -> list[Path]:
    """Returns the half-written checkpoints in a folder. Orbax gives a checkpoint its final name once it is complete."""
    return list(checkpoints.glob("*.orbax-checkpoint-tmp*"))


def remove_half_written(checkpoints: Path) -> None:
    """Removes the half-written checkpoints in a folder. The caller must be the only writer."""
    for path in half_written(checkpoints):
        shutil.rmtree(path, ignore_errors=True)
