"""Checkpoints of a cohort that survive a kill at any moment and detect damage.

Orbax writes a checkpoint next to the finished ones and renames it once it is complete. A rename does not prove that
every byte reached the disk, so each checkpoint also stores a digest of its arrays and notes. If a checkpoint cannot be
read, or its digest differs, the one before it is used.
"""

import errno
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from jaxmatch.training import hosts
from jaxmatch.training.unfinished_checkpoints import remove_half_written

KEPT = 2

# TensorStore raises plain ValueErrors, whose messages contain the error code of the system.
_SYSTEM_ERROR = re.compile(r"os_error_code='(\d+)'")
_DAMAGE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


def digest(arrays: Any, notes: dict) -> str:
    """Returns the SHA-256 of the arrays and notes of a checkpoint in hexadecimal digits."""
    state = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for leaf in jax.tree.leaves(arrays):
        state.update(np.ascontiguousarray(leaf).data)
    return state.hexdigest()


def _numbered(tree: Any) -> dict[str, np.ndarray]:
    """Returns the leaves of a tree by number.

    Numbered leaves can be restored without their shapes, which change when a cohort shrinks.
    """
    return {f"{number:05d}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}


def _system_error(error: Exception) -> int | None:
    """Returns the code of the system error that caused an exception, or None if no system error did."""
    if isinstance(error, OSError):
        return error.errno
    found = _SYSTEM_ERROR.search(str(error))
    return int(found[1]) if found else None


def _is_temporary(error: Exception) -> bool:
    """Returns whether an error means that a file could not be read at that moment, rather than that it is damaged."""
    if _system_error(error) not in _DAMAGE:
        return True
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error) or "Too many open files" in str(error)


# Threads that train cohorts side by side take turns with Orbax.
_ONE_AT_A_TIME = threading.Lock()
_ORBAX = str(Path(ocp.__file__).parent)


@functools.cache
def silence_orbax() -> None:
    """Stops Orbax from logging in this process.

    Its threads would print tracebacks, some of them late. The errors themselves are still raised.
    """
    hook = sys.unraisablehook

    def without_late_callbacks(unraisable: Any) -> None:
        # A TensorStore thread reports the end of its write to an event loop that is already closed.
        if "Event loop is closed" not in str(unraisable.exc_value):
            hook(unraisable)

    sys.unraisablehook = without_late_callbacks
    logging.getLogger("absl").addFilter(lambda record: not record.pathname.startswith(_ORBAX))


def _plain(checkpoint: Path) -> bool:
    """Returns whether a checkpoint is a folder of only files and folders. Reading a pipe could block forever."""
    return checkpoint.is_dir() and all(path.is_file() or path.is_dir() for path in checkpoint.rglob("*"))


class Checkpoints:
    """The checkpoints of one cohort, numbered in ascending order. Only the newest two are kept.

    There is one writer at a time, which holds the cohort's lock. Checkpoints that a killed writer left half written
    are removed.

    Arguments:
      folder: the folder of the checkpoints; created if it does not exist.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._damaged: list[int] = []  # deleted only after the next save: they may become readable again
        remove_half_written(folder)
        for path in folder.glob("*"):
            if path.name.isdigit() and not _plain(path):
                logging.getLogger(__name__).warning("checkpoint %s is not a folder of plain files: it is removed", path)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        process_options = {}
        if hosts.is_multiprocess():  # only process 0 gets here; Orbax would wait for the others
            folder.mkdir(parents=True, exist_ok=True)
            multiprocessing = ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0})
            process_options = {"create": False, "multiprocessing_options": multiprocessing}
        with _ONE_AT_A_TIME:
            silence_orbax()
            self.manager = ocp.CheckpointManager(
                folder.absolute(),
                options=ocp.CheckpointManagerOptions(
                    max_to_keep=KEPT, enable_async_checkpointing=False, **process_options
                ),
                item_names=("arrays", "notes"),
            )

    def save(self, number: int, arrays: Any, notes: dict) -> None:
        """Writes a checkpoint.

        Arguments:
          number: the number of the checkpoint. If there is a checkpoint of this number or a larger one, for example of
            a run that was stopped right after a save, the checkpoint gets the next free number.
          arrays: a tree of arrays.
          notes: values that JSON can represent.

        Raises:
          OSError: the checkpoint cannot be written, for example on a full disk. The half-written files are removed.
        """
        arrays = _numbered(arrays)
        notes = json.loads(json.dumps(notes))
        stored = {"notes": notes, "digest": digest(arrays, notes)}
        items = ocp.args.Composite(arrays=ocp.args.StandardSave(arrays), notes=ocp.args.JsonSave(stored))
        number = max([number, *(existing + 1 for existing in self.manager.all_steps())])
        try:
            with _ONE_AT_A_TIME:
                self.manager.save(number, args=items, force=True)
        except Exception as error:  # Orbax does not specify what it raises on a full disk
            size = sum(array.nbytes for array in arrays.values())
            code = _system_error(error)
            if code is None and shutil.disk_usage(self._folder.absolute().parent).free < size:
                code = errno.ENOSPC
            remove_half_written(self._folder)
            if code is None:
                raise
            raise OSError(code, os.strerror(code), str(self._folder)) from error
        for damaged in set(self._damaged).intersection(self.manager.all_steps()):
            self.manager.delete(damaged)
        self._damaged.clear()

    def restore(self, like: Any) -> tuple[Any, dict] | None:
        """Returns the newest undamaged checkpoint as (arrays, notes), or None if no such checkpoint exists.

        Arguments:
          like: a tree with the structure that was saved; its shapes do not matter.

        Raises:
          OSError: a checkpoint cannot be read at the moment, which does not mean that it is damaged.
        """
        structure = jax.tree.structure(like)
        for number in sorted(self.manager.all_steps(), reverse=True):
            try:
                with _ONE_AT_A_TIME:
                    items = self.manager.restore(
                        number, args=ocp.args.Composite(arrays=ocp.args.StandardRestore(), notes=ocp.args.JsonRestore())
                    )
                arrays, stored = jax.tree.map(np.asarray, items.arrays), items.notes
                if stored["digest"] != digest(arrays, stored["notes"]):
                    problem = "its digest differs"
                elif len(arrays) != structure.num_leaves:
                    problem = "it holds another structure"
                else:
                    return jax.tree.unflatten(structure, [arrays[name] for name in sorted(arrays)]), stored["notes"]
            except Exception as error:  # Orbax does not specify what it raises for a damaged file
                if _is_temporary(error):
                    code = _system_error(error)
                    if code is None or isinstance(error, OSError):
                        raise
                    raise OSError(code, os.strerror(code), str(self._folder / str(number))) from error
                problem = f"{type(error).__name__}"
            logging.getLogger(__name__).warning("checkpoint %d is damaged (%s): using the one before", number, problem)
            self._damaged.append(number)
        return None

    def close(self) -> None:
        """Frees the manager. No save is pending, because saves are synchronous."""
        self.manager.close()
