"""The available devices and cores, XLA's options for programs that run on them, and errors about their memory."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from jaxmatch.errors import InputError

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


def available_devices(platform: str | None = None) -> list[jax.Device]:
    """Returns all devices of a platform, such as "cpu"; None: of JAX's default backend.

    Raises:
      InputError: the platform has no devices, or its devices belong to several processes that were not started with
        --distributed.
    """
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
    text = str(error)
    if not isinstance(error, jax.errors.JaxRuntimeError) or any(part in text for part in _OF_A_CORE):
        return False
    return any(part in text for part in _OF_THE_DEVICE)


def device_bytes(device: jax.Device) -> int:
    """Returns the memory of one device, in bytes. An accelerator that does not report it is assumed to be small."""
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
