"""The folders in which encoded data and compiled programs are cached."""

import os
import warnings
from pathlib import Path

from jaxmatch.errors import InputError


def cache_folder(configured: str = "") -> Path:
    """Returns the folder for encoded data: `configured`, or one in the user's cache folder.

    Raises:
      InputError: no folder is configured, and the user has no home folder, as is common in a container.
    """
    if configured:
        return Path(configured)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxmatch"
    except RuntimeError:
        raise InputError(
            "this user has no home folder to keep encoded data in",
            remedy="name a folder: --config.execution.cache_directory=FOLDER, or the variable XDG_CACHE_HOME",
        ) from None


def keep_compiled_programs(configured: str = "") -> None:
    """Turns on JAX's cache of compiled programs on disk, so that the next process does not compile them again.

    The folder is the one that `JAX_COMPILATION_CACHE_DIR` names, or "programs" in `cache_folder`. If that folder cannot
    be written, nothing is cached. `JAX_ENABLE_COMPILATION_CACHE=0` turns the cache off.

    Arguments:
      configured: as in `cache_folder`.
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    if not jax.config.jax_enable_compilation_cache:
        return
    # A full disk or a damaged file only costs time, because the program is compiled again.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry", UserWarning)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        # Small programs are cached too: there are dozens, and together they take a second to compile.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if jax.config.jax_compilation_cache_dir:
        return
    try:
        folder = cache_folder(configured) / "programs"
        folder.mkdir(parents=True, exist_ok=True)
    except (InputError, OSError):
        return
    if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        compilation_cache.reset_cache()  # otherwise the cache stays off in a process that has already compiled
