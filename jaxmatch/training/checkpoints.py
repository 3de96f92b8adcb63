"""Checkpoints of a cohort that survive a kill at any moment and notice damage.

Orbax writes a checkpoint next to the finished ones and renames it. A rename does not prove that every byte reached the
disk, so a digest of the arrays goes in as well; a checkpoint that cannot be read, or whose digest differs, is passed
over for the one before.
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
from jaxmatch.training.remains import remove_half_written

KEPT = 2

# TensorStore's errors are plain ValueErrors.
_SYSTEM_ERROR = re.compile(r"os_error_code='(\d+)'")
_DAMAGE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


def digest(arrays: Any, notes: dict) -> str:
    state = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for leaf in jax.tree.leaves(arrays):
        state.update(np.ascontiguousarray(leaf).data)
    return state.hexdigest()


def _numbered(tree: Any) -> dict[str, np.ndarray]:
    """The leaves by number. So they can be restored without their shapes, which change when a cohort shrinks."""
    return {f"{number:05d}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}


def _system_error(error: Exception) -> int | None:
    """The number of the system's error behind an error, if there is one."""
    if isinstance(error, OSError):
        return error.errno
    found = _SYSTEM_ERROR.search(str(error))
    return int(found[1]) if found else None


def _hindered(error: Exception) -> bool:
    """Whether an error says that nothing more could be read just then, rather than that a file is damaged."""
    if _system_error(error) not in _DAMAGE:
        return True
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error) or "Too many open files" in str(error)


# Threads that train cohorts side by side use Orbax in turn.
_ONE_AT_A_TIME = threading.Lock()
_ORBAX = str(Path(ocp.__file__).parent)


@functools.cache
def silence_orbax() -> None:
    """Keeps Orbax from logging, from here on. Its threads would print tracebacks, some of them late; whatever went
    wrong is raised as well.
    """
    hook = sys.unraisablehook

    def without_late_callbacks(unraisable: Any) -> None:
        # A thread of TensorStore tells a loop that is gone how its write ended.
        if "Event loop is closed" not in str(unraisable.exc_value):
            hook(unraisable)

    sys.unraisablehook = without_late_callbacks
    logging.getLogger("absl").addFilter(lambda record: not record.pathname.startswith(_ORBAX))


def _plain(checkpoint: Path) -> bool:
    """Whether a checkpoint holds nothing but files and folders: to read a pipe would wait for ever."""
    return checkpoint.is_dir() and all(path.is_file() or path.is_dir() for path in checkpoint.rglob("*"))


class Checkpoints:
    """The checkpoints of one cohort, numbered upwards; the newest two are kept.

    There is one writer at a time, which holds the cohort's lock. What a killed one has half written is removed.

    Arguments:
      folder: where they lie; made when the first is written.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._damaged: list[int] = []  # kept until another is about to be written: it may only have been out of reach
        remove_half_written(folder)
        for odd in folder.glob("*"):
            if odd.name.isdigit() and not _plain(odd):
                logging.getLogger(__name__).warning("checkpoint %s holds what is no file: it is removed", odd.name)
                shutil.rmtree(odd) if odd.is_dir() and not odd.is_symlink() else odd.unlink()
        alone = {}
        if hosts.several():  # process 0 alone is here; Orbax would wait for the others
            folder.mkdir(parents=True, exist_ok=True)
            one = ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0})
            alone = {"create": False, "multiprocessing_options": one}
        with _ONE_AT_A_TIME:
            silence_orbax()
            self.manager = ocp.CheckpointManager(
                folder.absolute(),
                options=ocp.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=False, **alone),
                item_names=("arrays", "notes"),
            )

    def save(self, number: int, arrays: Any, notes: dict) -> None:
        """Writes a checkpoint.

        Arguments:
          number: larger than any before.
          arrays: a tree of arrays.
          notes: what JSON can hold.

        Raises:
          OSError: it cannot be written, for example on a full disk; what was half written is removed.
        """
        arrays = _numbered(arrays)
        notes = json.loads(json.dumps(notes))
        sealed = {"notes": notes, "digest": digest(arrays, notes)}
        items = ocp.args.Composite(arrays=ocp.args.StandardSave(arrays), notes=ocp.args.JsonSave(sealed))
        # One of its own number was left by a run that was stopped right after it.
        for old in {number, *self._damaged}.intersection(self.manager.all_steps()):
            self.manager.delete(old)
        self._damaged.clear()
        try:
            with _ONE_AT_A_TIME:
                self.manager.save(number, args=items, force=True)
        except Exception as error:  # what it raises where the disk is full is not specified
            size = sum(array.nbytes for array in arrays.values())
            code = _system_error(error)
            if code is None and shutil.disk_usage(self._folder.absolute().parent).free < size:
                code = errno.ENOSPC
            remove_half_written(self._folder)
            if code is None:
                raise
            raise OSError(code, os.strerror(code), str(self._folder)) from error

    def restore(self, like: Any) -> tuple[Any, dict] | None:
        """The newest checkpoint that is whole, as (arrays, notes), or None.

        Arguments:
          like: a tree with the structure that was saved; its shapes do not matter.

        Raises:
          OSError: one cannot be read just now, which does not mean that it is damaged.
        """
        structure = jax.tree.structure(like)
        for number in sorted(self.manager.all_steps(), reverse=True):
            try:
                with _ONE_AT_A_TIME:
                    items = self.manager.restore(
                        number, args=ocp.args.Composite(arrays=ocp.args.StandardRestore(), notes=ocp.args.JsonRestore())
                    )
                arrays, sealed = jax.tree.map(np.asarray, items.arrays), items.notes
                if sealed["digest"] != digest(arrays, sealed["notes"]):
                    problem = "its digest differs"
                elif len(arrays) != structure.num_leaves:
                    problem = "it holds another structure"
                else:
                    return jax.tree.unflatten(structure, [arrays[name] for name in sorted(arrays)]), sealed["notes"]
            except Exception as error:  # what a damaged file raises is not specified
                if _hindered(error):
                    code = _system_error(error)
                    if code is None or isinstance(error, OSError):
                        raise
                    raise OSError(code, os.strerror(code), str(self._folder / str(number))) from error
                problem = f"{type(error).__name__}"
            logging.getLogger(__name__).warning("checkpoint %d is damaged (%s): using the one before", number, problem)
            self._damaged.append(number)
        return None

    def close(self) -> None:
        """Waits for nothing and frees the manager."""
        self.manager.close()
