"""The setup of the tests, which pytest loads from the root."""

import gc
import os
import subprocess
import sys

# The tests compile far more than they compute. Optimizations that only make programs faster take most of the compiler's
# time, and a program means the same without them.
QUICK_COMPILATION = " ".join(
    (
        "--xla_backend_optimization_level=0",
        "--xla_cpu_use_fusion_emitters=false",
        # Compiling a program in several parts takes more time in total, and other tests use the other cores anyway.
        "--xla_cpu_parallel_codegen_split_count=1",
    )
)


def pytest_configure(config) -> None:
    """Sets JAX's and XLA's options for this process and its child processes. `XLA_FLAGS= pytest` leaves XLA as users
    have it.
    """
    # Compiled programs are stored in pytest's cache, not in the user's. All workers and processes of this run, and the
    # next run, find them there.
    if hasattr(config, "cache"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("programs")))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    else:
        os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "0")
    if "XLA_FLAGS" in os.environ:
        return
    environment = {**os.environ, "XLA_FLAGS": QUICK_COMPILATION}
    # XLA ends a process that sets an unknown flag, and any flag may be removed in a later version.
    known = subprocess.run([sys.executable, "-c", "import jax; jax.devices()"], env=environment, capture_output=True)
    os.environ["XLA_FLAGS"] = QUICK_COMPILATION if known.returncode == 0 else ""


def pytest_collection_finish() -> None:
    """Makes Python collect garbage less often. Tracing makes many small objects, and what is loaded by now stays."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
