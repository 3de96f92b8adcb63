"""The available devices and cores, XLA's options for programs that run on them, and errors about their memory."""

import os
from typing import Any

import jax

from jaxmatch.errors import InputError

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
