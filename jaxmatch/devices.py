"""The available devices and cores, and XLA's options for programs that run on them."""

import os
from typing import Any

import jax

from jaxmatch.errors import InputError


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
        # On an H200, cuBLAS was faster than XLA's own matrix products, and XLA's trials of its own products take about
        # half of the time to compile (benchmarks/NOTES.md).
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
    # A TPU slice joins the processes of its hosts by itself, even if no variable shows it (cli/launchers.py).
    processes = len({device.process_index for device in found})
    if processes > 1 and not jax.distributed.is_initialized():
        raise InputError(
            f"this is one of {processes} processes that share {len(found)} devices",
            remedy="train with --distributed on each host, or set TPU_PROCESS_BOUNDS=1,1,1 to use this host alone",
        )
    return found
