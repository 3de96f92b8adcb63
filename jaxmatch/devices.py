"""The devices and cores that there are, and how XLA compiles for them."""

import os
from typing import Any

import jax

from jaxmatch.errors import InputError


def cores() -> int:
    """How many cores XLA uses here; the sums of its products depend on it."""
    told = os.environ.get("NPROC", "")
    if told.isdigit():
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiler_options(platform: str, runs_once: bool = False) -> dict[str, Any]:
    """XLA's options for programs of a platform; those that `XLA_FLAGS` names are left to it.

    Arguments:
      platform: of the devices, as JAX calls it.
      runs_once: whether to compile in a hurry.
    """
    options = {
        # Most of the time to compile goes into code that would pay only if it ran often.
        "cpu": {"xla_backend_optimization_level": 0} if runs_once else {},
        # On an H200 cuBLAS was faster than XLA's own products, whose trials take about half of the time to compile
        # (benchmarks/NOTES.md).
        "gpu": {"xla_gpu_enable_triton_gemm": False},
    }
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in options.get(platform, {}).items() if name not in flags}


def devices_there_are(platform: str | None = None) -> list[jax.Device]:
    """All devices of a platform, as "cpu"; None: of JAX's default backend.

    Raises:
      InputError: there are none, or they are those of several processes that were not started with --distributed.
    """
    try:
        found = jax.devices(platform)
    except (
        RuntimeError,
        AssertionError,
    ) as error:  # the latter, without a word, for a platform that jaxlib was built without
        reason = str(error) or f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        wanted = "no device" if platform is None else f"no {platform}"
        remedy = (
            "set JAX_PLATFORMS=cpu, or fix what keeps JAX from using the accelerator"
            if platform is None
            else "leave JAX_PLATFORMS unset"
        )
        raise InputError(f"JAX finds {wanted} ({reason})", remedy=remedy) from None
    # A TPU slice joins the processes of its hosts by itself, and its variables need not say so (cli/launchers.py).
    processes = len({device.process_index for device in found})
    if processes > 1 and not jax.distributed.is_initialized():
        raise InputError(
            f"this is one of {processes} processes that share {len(found)} devices",
            remedy="train with --distributed on each host, or set TPU_PROCESS_BOUNDS=1,1,1 to use this host alone",
        )
    return found
