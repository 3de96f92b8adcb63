"""What a killed save leaves of a checkpoint."""

import shutil
from pathlib import Path


def half_written(checkpoints: Path) -> list[Path]:
    """The half-written checkpoints in a folder of checkpoints: Orbax gives one its name when it is whole."""
    return list(checkpoints.glob("*.orbax-checkpoint-tmp*"))


def remove_half_written(checkpoints: Path) -> None:
    """Removes them; the caller must be the only writer."""
    for path in half_written(checkpoints):
        shutil.rmtree(path, ignore_errors=True)
