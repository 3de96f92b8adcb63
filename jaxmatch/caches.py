"""Where encoded data and compiled programs are kept."""

import os
import warnings
from pathlib import Path

from jaxmatch.errors import InputError


def cache_folder(named: str = "") -> Path:
    """Where encoded data is kept: as named, or below the user's cache folder.

    Raises:
      InputError: none is named, and the user, as often in a container, has no home.
    """
    if named:
        return Path(named)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxmatch"
    except RuntimeError:
        raise InputError(
            "this user has no home folder to keep encoded data in",
            remedy="name a folder: --config.execution.cache_directory=FOLDER, or the variable XDG_CACHE_HOME",
        ) from None


def keep_compiled_programs(named: str = "") -> None:
    """Lets JAX keep what it compiles on disk, so that the next process does not compile it again.

    The folder is the one that `JAX_COMPILATION_CACHE_DIR` names, or "programs" in `cache_folder`. Where it cannot be
    written, nothing is kept. `JAX_ENABLE_COMPILATION_CACHE=0` turns it off.

    Arguments:
      named: as in `cache_folder`.
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    if not jax.config.jax_enable_compilation_cache:
        return
    # A full disk or a damaged file costs time; the program is compiled again.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry", UserWarning)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        # The small helpers too: there are dozens, and together they take a second.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if jax.config.jax_compilation_cache_dir:
        return
    try:
        folder = cache_folder(named) / "programs"
        folder.mkdir(parents=True, exist_ok=True)
    except (InputError, OSError):
        return
    if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        compilation_cache.reset_cache()  # else it stays off in a process that compiled something before
