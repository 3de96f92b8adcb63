"""Checkpoints of a cohort that survive a kill at any moment and notice damage.

Orbax writes a checkpoint beside the finished ones and renames it. A rename does not prove that every byte reached the disk,
so a digest of the arrays goes in as well; a checkpoint that cannot be read, or whose digest differs, is passed over for the
one before.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

KEPT = 2


def _digest(arrays: Any, notes: dict) -> str:
    state = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for leaf in jax.tree.leaves(arrays):
        state.update(np.ascontiguousarray(leaf).data)
    return state.hexdigest()


def _numbered(tree: Any) -> dict[str, np.ndarray]:
    """The leaves by number: what is read back needs no shapes, which change when a cohort is re-stacked."""
    return {f"{number:05d}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}


def _hindered(error: Exception) -> bool:
    """Whether an error says that nothing more could be read just then, rather than that a file is damaged."""
    if isinstance(error, OSError):
        return error.errno not in (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error) or "Too many open files" in str(error)


class Checkpoints:
    """The checkpoints of one cohort, numbered upwards; the newest two are kept.

    Arguments:
      folder: where they lie; made when the first is written.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._manager = ocp.CheckpointManager(
            folder.absolute(),
            options=ocp.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=False),
            item_names=("arrays", "notes"),
        )
        self._damaged: list[int] = []  # kept until another is about to be written: it may only have been out of reach

    def save(self, number: int, arrays: Any, notes: dict) -> None:
        """Writes a checkpoint.

        Arguments:
          number: larger than any before.
          arrays: a tree of arrays.
          notes: what JSON can hold.
        """
        arrays = _numbered(arrays)
        notes = json.loads(json.dumps(notes))
        sealed = {"notes": notes, "digest": _digest(arrays, notes)}
        items = ocp.args.Composite(arrays=ocp.args.StandardSave(arrays), notes=ocp.args.JsonSave(sealed))
        # One of its own number was left by a run that was stopped right after it.
        for old in {number, *self._damaged}.intersection(self._manager.all_steps()):
            self._manager.delete(old)
        self._damaged.clear()
        try:
            self._manager.save(number, args=items, force=True)
        except Exception as error:  # what it raises where the disk is full is not specified
            size = sum(array.nbytes for array in arrays.values())
            if shutil.disk_usage(self._folder.absolute().parent).free >= size:
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder)) from error

    def restore(self, like: Any) -> tuple[Any, dict] | None:
        """The newest checkpoint that is whole, as (arrays, notes), or None.

        Arguments:
          like: a tree with the structure that was saved; its shapes do not matter.
        """
        structure = jax.tree.structure(like)
        for number in sorted(self._manager.all_steps(), reverse=True):
            try:
                items = self._manager.restore(
                    number, args=ocp.args.Composite(arrays=ocp.args.StandardRestore(), notes=ocp.args.JsonRestore())
                )
                arrays, sealed = jax.tree.map(np.asarray, items.arrays), items.notes
                if sealed["digest"] != _digest(arrays, sealed["notes"]):
                    problem = "its digest differs"
                elif len(arrays) != structure.num_leaves:
                    problem = "it holds another structure"
                else:
                    return jax.tree.unflatten(structure, [arrays[name] for name in sorted(arrays)]), sealed["notes"]
            except Exception as error:  # what a damaged file raises is not specified
                if _hindered(error):
                    raise
                problem = f"{type(error).__name__}"
            logging.getLogger(__name__).warning("checkpoint %d is damaged (%s): using the one before", number, problem)
            self._damaged.append(number)
        return None

    def close(self) -> None:
        """Waits for nothing and frees the manager."""
        self._manager.close()
