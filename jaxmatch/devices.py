"""The machine: devices and cores, their memory, the precision of their products, caches of programs, and huge pages.

JAX is imported by the functions that need it, because the command imports this module first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.errors import InputError

if TYPE_CHECKING:
    import jax
    from jax.lax import Precision

BYTES_OF_A_SMALL_DEVICE = 8 * 2**30
# Parts of error messages about the memory of a device, and about the memory of one of its cores.
_OF_THE_DEVICE = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")
_OF_A_CORE = ("Shared memory size limit", "memory space vmem", "memory space smem")


def cores() -> int:
    """Returns the number of cores that XLA uses on this machine. The sums of its products depend on it."""
    limit = os.environ.get("NPROC", "")
    if limit.isdigit():
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiler_options(platform: str, runs_once: bool = False) -> dict[str, Any]:
    """Returns XLA's options for programs of a platform, as JAX names it, without those that `XLA_FLAGS` sets."""
    options = {
        # Most of the time to compile is spent on optimizations that pay only for a program that runs often.
        "cpu": {"xla_backend_optimization_level": 0} if runs_once else {},
        # On an H200, cuBLAS was faster than XLA's own matrix products, and without trials of them some programs
        # compiled in half the time (benchmarks/NOTES.md).
        "gpu": {"xla_gpu_enable_triton_gemm": False},
    }
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in options.get(platform, {}).items() if name not in flags}


_process: int | None = None  # the process that first used JAX here


def check_not_forked() -> None:
    """Raises a RuntimeError in a fork of a process that had used JAX: it lacks JAX's threads, and waits forever."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        remedy = "start processes with multiprocessing.get_context('spawn'), or load models only after the fork"
        raise RuntimeError(f"this process was forked from one that had used JAX, so JAX would wait forever; {remedy}")


def available_devices(platform: str | None = None) -> list[jax.Device]:
    """Returns all devices of a platform, such as "cpu"; None: of JAX's default backend.

    Raises:
      RuntimeError: as in `check_not_forked`.
      InputError: there are none, or they belong to several processes that were not started with --distributed.
    """
    import jax

    check_not_forked()
    try:
        found = jax.devices(platform)
    # An AssertionError, without a message, for a platform that jaxlib was built without.
    except (RuntimeError, AssertionError) as error:
        reason = str(error) or f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        fix = "set JAX_PLATFORMS=cpu, or fix what keeps JAX from using the accelerator"
        remedy = "leave JAX_PLATFORMS unset" if platform else fix
        raise InputError(f"JAX finds no {platform or 'device'} ({reason})", remedy=remedy) from None
    # A TPU slice joins the processes of its hosts by itself.
    processes = len({device.process_index for device in found})
    if processes > 1 and not jax.distributed.is_initialized():
        remedy = "train with --distributed on each host, or set TPU_PROCESS_BOUNDS=1,1,1 to use this host alone"
        raise InputError(f"this is one of {processes} processes that share {len(found)} devices", remedy=remedy)
    return found


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether an error says that a device has too little memory to compile or run a program.

    Memory of one core (shared memory, vmem) does not count: a program for fewer slots or pairs needs as much of it.
    """
    import jax

    text = str(error)
    if not isinstance(error, jax.errors.JaxRuntimeError) or any(part in text for part in _OF_A_CORE):
        return False
    return any(part in text for part in _OF_THE_DEVICE)


def device_bytes(device: jax.Device) -> int:
    """Returns the memory of one device, in bytes. An accelerator that does not report it is assumed to be small."""
    import jax

    if device.process_index != jax.process_index():  # only local devices report it; those of a pod are equal
        device = jax.local_devices()[0]
    statistics = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    if device.platform != "cpu":
        return BYTES_OF_A_SMALL_DEVICE
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *_granted_bytes()]) // max(1, jax.local_device_count())


def _granted_bytes() -> list[int]:
    """Returns the memory limits of this process, in bytes, from Linux control groups (containers, batch systems)."""
    limits = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controller, group = line.split(":", 2)
            if controller in ("", "memory"):  # "" for version 2, which has one hierarchy for everything
                name = "memory.limit_in_bytes" if controller else "memory.max"
                for folder in Path("/sys/fs/cgroup", controller, group.lstrip("/"), name).parents:
                    with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                        limits.append(int((folder / name).read_text()))
    return limits


_AMPERE = 8  # the compute capability of Ampere, the first of NVIDIA's GPUs with TF32


def products_of(precision: str, device: jax.Device) -> str:
    """Returns the type to which a device rounds the factors of matrix products in a model of this precision.

    It is "float32", "TF32", "bfloat16", "bfloat16 x 3", "device-dependent", or "TF32 or float32" if either is possible.
    With precision `float32`, it depends on `jax_default_matmul_precision`, which may also name an algorithm.
    """
    import jax
    from jax.lax import Precision

    from jaxmatch.layers.core import JAX_PRECISIONS

    if precision == "bfloat16":
        return "bfloat16"
    requested = JAX_PRECISIONS.get(precision) or jax.config.jax_default_matmul_precision or Precision.DEFAULT
    try:
        return rounded(Precision(requested), device)
    except ValueError:  # the name of an algorithm
        return requested


def rounded(requested: Precision, device: jax.Device) -> str:
    """Returns `products_of` for a product for which JAX requests a precision.

    The source is https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision. "bfloat16 x 3": each factor is the sum
    of two bfloat16 numbers, and three of their four products are added.
    """
    if device.platform == "cpu" or requested.name == "HIGHEST":
        return "float32"
    if device.platform == "tpu":
        return "bfloat16" if requested.name == "DEFAULT" else "bfloat16 x 3"
    major = str(getattr(device, "compute_capability", "")).partition(".")[0]  # "9.0", or "gfx942" for AMD
    if not major.isdecimal():
        return "device-dependent"
    if int(major) < _AMPERE:
        return "float32"
    # This variable prevents TF32 in NVIDIA's libraries, but not in XLA's own kernels.
    return "TF32 or float32" if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else "TF32"


# Linux limits the number of memory mappings of a process, and a program compiled for a CPU takes hundreds.
LIMIT_FILE, MAPPINGS_FILE = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")


def mappings_are_scarce() -> bool:
    """Returns whether more than three quarters of the mappings are in use. Then drop programs before you compile more.

    If none is left, a compilation ends the process. A training step of RE2 takes about 1,200 of Linux's 65,530.
    """
    try:
        return 4 * MAPPINGS_FILE.read_bytes().count(b"\n") > 3 * int(LIMIT_FILE.read_text())
    except (OSError, ValueError):
        return False


def cache_folder(configured: str = "") -> Path:
    """Returns the folder for encoded data: `configured`, or one in the user's cache folder.

    Raises:
      InputError: no folder is configured, and the user has no home folder, as is common in a container.
    """
    try:
        return Path(configured or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "jaxmatch"))
    except RuntimeError:
        remedy = "name a folder: --config.execution.cache_directory=FOLDER, or the variable XDG_CACHE_HOME"
        raise InputError("this user has no home folder to keep encoded data in", remedy=remedy) from None


def keep_compiled_programs(configured: str = "") -> None:
    """Turns on JAX's cache of compiled programs on disk, so that the next process does not compile them again.

    The folder is the one that `JAX_COMPILATION_CACHE_DIR` names, or "programs" in `cache_folder(configured)` if it can
    be written.
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
    with contextlib.suppress(InputError, OSError):
        folder = cache_folder(configured) / "programs"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            jax.config.update("jax_compilation_cache_dir", str(folder))
            compilation_cache.reset_cache()  # otherwise the cache stays off in a process that has already compiled


# Each call of a training step gets new working memory, page by page. Pages of 2 MiB save time (benchmarks/NOTES.md).
# Many Linux systems give them only on request, which glibc makes if this variable was set before the process began.
TUNABLES, HUGE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
HUGE_PAGES_FILE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def restart_with_huge_pages() -> None:
    """Restarts this process with the variable set if huge pages must be requested. Call it before anything else.

    `GLIBC_TUNABLES=glibc.malloc.hugetlb=0` keeps small pages.
    """
    tunables = os.environ.get(TUNABLES, "")
    if HUGE in tunables or "[madvise]" not in huge_pages_setting():
        return
    changed = {TUNABLES: ":".join(filter(None, [tunables, f"{HUGE}=1"]))}
    with contextlib.suppress(OSError):  # the process continues, although it is slower
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **changed})


def huge_pages_setting() -> str:
    """Returns the system's setting for huge pages, in which the choice in brackets applies, or ""."""
    with contextlib.suppress(OSError):
        return HUGE_PAGES_FILE.read_text()
    return ""
