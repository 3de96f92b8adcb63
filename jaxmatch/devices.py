"""The machine: devices and cores, their memory, the precision of their products, caches of programs, and huge pages.

JAX is imported by the functions that need it, because the command imports this module first.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import warnings
from collections.abc import Mapping
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
    """Returns XLA's options for programs of a platform, without those that `XLA_FLAGS` sets.

    Arguments:
      platform: the platform of the devices, as JAX names it.
      runs_once: whether the program runs only once, so that a fast compilation matters more than a fast program.
    """
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
    """Checks that this process was not forked from one that had used JAX, whose threads it lacks.

    Raises:
      RuntimeError: it was. JAX would wait forever.
    """
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had used JAX, so JAX would wait forever; start processes with "
            "multiprocessing.get_context('spawn'), or load models only after the fork"
        )


def available_devices(platform: str | None = None) -> list[jax.Device]:
    """Returns all devices of a platform, such as "cpu"; None: of JAX's default backend.

    Raises:
      RuntimeError: as in `check_not_forked`.
      InputError: the platform has no devices, or its devices belong to several processes that were not started with
        --distributed.
    """
    import jax

    check_not_forked()
    try:
        found = jax.devices(platform)
    # An AssertionError, without a message, for a platform that jaxlib was built without.
    except (RuntimeError, AssertionError) as error:
        reason = str(error) or f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        wanted = "no device" if platform is None else f"no {platform}"
        remedy = (
            "set JAX_PLATFORMS=cpu, or fix what keeps JAX from using the accelerator"
            if platform is None
            else "leave JAX_PLATFORMS unset"
        )
        raise InputError(f"JAX finds {wanted} ({reason})", remedy=remedy) from None
    # A TPU slice joins the processes of its hosts by itself.
    processes = len({device.process_index for device in found})
    if processes > 1 and not jax.distributed.is_initialized():
        raise InputError(
            f"this is one of {processes} processes that share {len(found)} devices",
            remedy="train with --distributed on each host, or set TPU_PROCESS_BOUNDS=1,1,1 to use this host alone",
        )
    return found


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether an error says that a device has too little memory to compile or run a program.

    Memory that CUDA and cuBLAS allocate outside XLA's pool counts. Memory of one core (shared memory of a GPU, vmem
    of a TPU) does not count, because a program for fewer replicas or pairs needs as much of it.
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
    statistics: Mapping[str, int] = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    if device.platform != "cpu":
        return BYTES_OF_A_SMALL_DEVICE
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *granted_bytes()]) // max(1, jax.local_device_count())


def granted_bytes(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """Returns the memory limits of this process, in bytes, from Linux control groups (containers, batch systems).

    Arguments:
      groups: the file that lists the process's groups.
      root: the folder where the control groups are mounted.
    """
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:
        return []
    limits = []
    for line in lines:
        # A line of version 2 names no controllers. Version 1 has a hierarchy of its own for memory.
        if len(line) != 3 or (line[1] and "memory" not in line[1].split(",")):
            continue
        base, name = (root / "memory", "memory.limit_in_bytes") if line[1] else (root, "memory.max")
        inner = base / line[2].lstrip("/")
        for folder in (inner, *inner.parents):
            with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                limits.append(int((folder / name).read_text()))
            if folder == base:
                break
    return limits


# A device may round the float32 factors of matrix products, by default or because the requested precision allows it.
_BEFORE_AMPERE = "NVIDIA before Ampere"
_PRECISE = dict.fromkeys(("DEFAULT", "HIGH", "HIGHEST"), "float32")
# Device -> requested precision (the name of a `Precision`) -> the type to which float32 factors are rounded
# (https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision). "bfloat16 x 3": each factor is the sum of two
# bfloat16 numbers, and three of their four products are added. HIGHEST splits each factor into three bfloat16 numbers,
# and adds six of their nine products.
_ROUNDED = {
    "cpu": _PRECISE,
    "tpu": _PRECISE | {"DEFAULT": "bfloat16", "HIGH": "bfloat16 x 3"},
    _BEFORE_AMPERE: _PRECISE,
    "NVIDIA": _PRECISE | {"DEFAULT": "TF32", "HIGH": "TF32"},
    "another": _PRECISE | dict.fromkeys(("DEFAULT", "HIGH"), "device-dependent"),
}
_ALGORITHMS = {"F32_F32_F32": "float32", "TF32_TF32_F32": "TF32", "BF16_BF16_F32": "bfloat16"}
_AMPERE = 8  # the compute capability of Ampere, the first with TF32


def products_of(precision: str, device: jax.Device) -> str:
    """Returns the type to which a device rounds the factors of a model's matrix products.

    Arguments:
      precision: the precision of the model, a key of `layers.core.PRECISIONS`. With `float32`, the result depends on
        JAX's default precision as it is now set (`jax_default_matmul_precision`).
      device: the device that computes the products.

    Returns:
      "float32", "TF32", "bfloat16", "bfloat16 x 3", "device-dependent", or the name of the `jax.lax.DotAlgorithmPreset`
      that is set; "... or ..." if either is possible.
    """
    import jax.numpy as jnp

    from jaxmatch.layers.core import JAX_PRECISIONS, PRECISIONS

    if PRECISIONS[precision] == jnp.bfloat16:
        return "bfloat16"
    return rounded(JAX_PRECISIONS.get(precision) or _default_precision(), device)


def rounded(requested: Precision | str, device: jax.Device) -> str:
    """Returns the type to which a device rounds float32 factors, as in `products_of`.

    Arguments:
      requested: the precision that JAX requests for the product, or the name of a `DotAlgorithmPreset`.
      device: the device that computes the product.
    """
    from jax.lax import Precision

    if isinstance(requested, Precision):
        found = _ROUNDED[_family(device)][requested.name]
        # This variable prevents TF32 in NVIDIA's libraries, but not in XLA's own kernels.
        return "TF32 or float32" if found == "TF32" and os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else found
    found = _ALGORITHMS.get(requested, requested)
    # A CPU treats an algorithm as the least precision that it must provide.
    return f"{found} or finer" if device.platform == "cpu" and found != "float32" else found


def _default_precision() -> Precision | str:
    """Returns the precision that JAX requests for a product that names no precision."""
    import jax
    from jax.lax import Precision

    chosen = jax.config.jax_default_matmul_precision
    try:
        return Precision.DEFAULT if chosen is None else Precision(chosen)
    except ValueError:  # the name of an algorithm
        return chosen


def _family(device: jax.Device) -> str:
    if device.platform in ("cpu", "tpu"):
        return device.platform
    major = str(getattr(device, "compute_capability", "")).partition(".")[0]  # "9.0", or "gfx942" for AMD
    if not major.isdecimal():
        return "another"
    return "NVIDIA" if int(major) >= _AMPERE else _BEFORE_AMPERE


# Linux limits the number of memory mappings of a process, and a program compiled for a CPU takes hundreds.
LIMIT_FILE, MAPPINGS_FILE = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")


def mappings_are_scarce() -> bool:
    """Returns whether more than three quarters of the mappings are in use; False if the system does not report them.

    If no mapping is left, the compilation of another program ends the process, even with gigabytes of free memory
    ("LLVM ERROR: Unable to allocate section memory!"). By default, Linux allows 65,530 mappings. A training step of RE2
    with two blocks takes about 1,200.
    """
    try:
        limit = int(LIMIT_FILE.read_text())
        with MAPPINGS_FILE.open("rb") as lines:
            used = sum(1 for _ in lines)
    except (OSError, ValueError):
        return False
    return 4 * used > 3 * limit


def clear_programs_if_scarce() -> bool:
    """Drops all compiled programs of `jax.jit` if memory mappings are scarce. They are compiled again when needed.

    Returns:
      Whether the programs were dropped.
    """
    if not mappings_are_scarce():
        return False
    import jax

    jax.clear_caches()
    return True


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


# Huge pages are pages of megabytes instead of kilobytes. Each call of a training step gets new working memory,
# hundreds of megabytes to gigabytes. The system provides it page by page, 4 KiB each. benchmarks/NOTES.md reports how
# much time larger pages save. Many Linux systems give larger pages only to processes that request them ("madvise").
# glibc requests them if an environment variable was set before the process began
# (https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html). Nothing else about the memory
# changes.
TUNABLES, HUGE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
HUGE_PAGES_FILE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def restart_with_huge_pages() -> None:
    """Restarts this process with the variable set, if that helps. Must be called before anything else is done.

    The function does nothing if the system gives huge pages to all processes or to none, if there is no glibc, or if
    the variable already mentions them: `GLIBC_TUNABLES=glibc.malloc.hugetlb=0` keeps small pages.
    """
    tunables = os.environ.get(TUNABLES, "")
    if HUGE in tunables or not huge_pages_on_request() or platform.libc_ver()[0] != "glibc":
        return
    changed = {TUNABLES: ":".join(filter(None, [tunables, f"{HUGE}=1"]))}
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **changed})
    except OSError:  # the process continues, although it is slower
        return


def huge_pages_enabled() -> bool:
    """Returns whether this process has huge pages, as do the processes that it starts with the same environment."""
    requested = f"{HUGE}=1" in os.environ.get(TUNABLES, "")
    return "[always]" in _huge_pages_setting() or (requested and huge_pages_on_request())


def huge_pages_on_request() -> bool:
    """Returns whether the system gives huge pages only to processes that request them."""
    return "[madvise]" in _huge_pages_setting()


def _huge_pages_setting() -> str:
    """Reads the system's setting for huge pages. Returns "" if the system has no such setting."""
    try:
        return HUGE_PAGES_FILE.read_text()
    except OSError:
        return ""
