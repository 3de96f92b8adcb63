"""Checkpoints of a cohort that survive a kill at any moment and detect damage.

A checkpoint is one NPZ file, which is written beside the others and renamed once it is complete (jaxmatch/files.py). A
rename does not prove that every byte reached the disk, so the checksums of the file are verified when it is read. If
it is damaged, the checkpoint before it is used.
"""

import errno
import json
import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxmatch.files import open_atomically, remove_abandoned

KEPT = 2


class Checkpoints:
    """The checkpoints of one cohort, numbered in ascending order. Only the newest two are kept.

    There is one writer at a time, which holds the cohort's lock. What a killed writer left half written is removed.

    Arguments:
      folder: the folder of the checkpoints; created if it does not exist.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._damaged: set[int] = set()  # deleted only after the next save: they may become readable again
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdigit() and path.is_file())

    def save(self, number: int, arrays: Any, notes: dict) -> None:
        """Writes a checkpoint.

        Arguments:
          number: the number of the checkpoint. If there is a checkpoint of this number or a larger one, for example of
            a run that was stopped right after a save, the checkpoint gets the next free number.
          arrays: a tree of arrays.
          notes: values that JSON can represent.

        Raises:
          OSError: the checkpoint cannot be written, for example on a full disk.
        """
        number = max([number, *(existing + 1 for existing in self._numbers())])
        leaves = {f"{place:05d}": leaf for place, leaf in enumerate(jax.tree.leaves(arrays))}
        with open_atomically(self._folder / str(number)) as file:
            np.savez(file, notes=np.frombuffer(json.dumps(notes).encode(), np.uint8), **leaves)
        for old in {*self._numbers()[:-KEPT], *self._damaged}:
            (self._folder / str(old)).unlink()
        self._damaged.clear()

    def restore(self, like: Any) -> tuple[Any, dict] | None:
        """Returns the newest undamaged checkpoint as (arrays, notes), or None if no such checkpoint exists.

        Arguments:
          like: a tree with the structure that was saved; its shapes do not matter.

        Raises:
          OSError: a checkpoint cannot be read at the moment, which does not mean that it is damaged.
        """
        structure = jax.tree.structure(like)
        for number in reversed(self._numbers()):
            try:
                with open(self._folder / str(number), "rb") as file, np.load(file, allow_pickle=False) as stored:
                    notes = json.loads(stored["notes"].tobytes())
                    return jax.tree.unflatten(structure, [stored[name] for name in sorted(stored.files)[:-1]]), notes
            except Exception as error:  # of many kinds: it depends on which byte is wrong
                if isinstance(error, MemoryError) or getattr(error, "errno", None) not in (None, errno.EINVAL):
                    raise
                logging.getLogger(__name__).warning(
                    "checkpoint %d is damaged (%s): using the one before", number, error or type(error).__name__
                )
                self._damaged.add(number)
        return None
