"""Loaded by pytest from the root: what it does before the tests, and their order."""

import gc
import os
import subprocess
import sys

# The tests compile far more than they compute. What XLA does for speed alone is most of the compiler's time, and a
# program's meaning is the same without it.
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def pytest_configure(config) -> None:
    """Sets JAX's and XLA's options for this process and those it starts; `XLA_FLAGS= pytest` leaves XLA as users have
    it.
    """
    # A shape that is extended without being asked is a mistake here.
    os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
    # Compiled programs are kept in pytest's cache, not in the user's: all workers and processes of this run, and the
    # next run, find them there.
    if hasattr(config, "cache"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("programs")))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    else:
        os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "0")
    if "XLA_FLAGS" in os.environ:
        return
    environment = {**os.environ, "XLA_FLAGS": QUICK_COMPILATION}
    # XLA ends a process that names a flag it does not know, and does not promise to keep any.
    known = subprocess.run([sys.executable, "-c", "import jax; jax.devices()"], env=environment, capture_output=True)
    os.environ["XLA_FLAGS"] = QUICK_COMPILATION if known.returncode == 0 else ""


def pytest_collection_modifyitems(items: list) -> None:
    """Tests marked `slow` run last, so that a plain mistake shows at once."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def pytest_collection_finish() -> None:
    """Has Python look for garbage less often: tracing makes many small objects, and what is loaded by now stays."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
