"""Accelerators that a machine has and JAX does not see, and what helps."""

import os
import subprocess
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path

# The packages that bring XLA's compilers. (They are installed with an extra of this one, and work with the jaxlib of
# their version.)
_CUDA, _TPU = ("jax-cuda12-plugin", "jax-cuda13-plugin"), ("libtpu",)
# Google's number as the maker of a PCI device, and those of its TPUs, v3 to v7x. (A network card of its cloud is a
# device of Google, too.)
_GOOGLE = "0x1ae0"
_TPU_DEVICES = {"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"}
# What a TPU's virtual machine has in its environment.
_TPU_VARIABLES = ("TPU_NAME", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID")


def unseen_devices(
    platforms: Collection[str], root: Path = Path("/"), environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Says of each kind of accelerator that is here what JAX needs to see it.

    Arguments:
      platforms: of the devices that JAX sees, as "gpu".
      root: the folder that holds `dev`, `proc` and `sys`.
      environment: the variables of this process.

    Returns:
      A line for NVIDIA GPUs, a line for TPUs, or none.
    """
    lines = []
    if "gpu" not in platforms and (gpu := _gpu(root)):
        lines.append(f"{gpu} is here, and JAX does not see it: {_remedy('cuda', _CUDA, 'cuda12', environment)}")
    if "tpu" not in platforms and _has_tpu(root, environment):
        lines.append(f"a TPU is here, and JAX does not see it: {_remedy('tpu', _TPU, 'tpu', environment)}")
    return lines


def _gpu(root: Path) -> str:
    """The names of NVIDIA's GPUs from nvidia-smi; "an NVIDIA GPU" if only the driver's files show it; "" if none."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        output = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        output = ""
    if names := [line.strip() for line in output.splitlines() if line.strip()]:
        return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    there = any((root / "dev").glob("nvidia[0-9]*")) or any((root / "proc/driver/nvidia/gpus").glob("*"))
    return "an NVIDIA GPU" if there else ""


def _has_tpu(root: Path, environment: Mapping[str, str]) -> bool:
    """Whether the driver's files (of older TPUs), a PCI device (of newer ones) or the environment show a TPU."""
    if any((root / "dev").glob("accel[0-9]*")) or any(environment.get(name) for name in _TPU_VARIABLES):
        return True
    try:
        return any(
            (device / "vendor").read_text().strip() == _GOOGLE
            and (device / "device").read_text().strip() in _TPU_DEVICES
            for device in (root / "sys" / "bus" / "pci" / "devices").glob("*")
        )
    except OSError:
        return False


def _remedy(platform: str, plugins: Collection[str], extra: str, environment: Mapping[str, str]) -> str:
    """The most likely reason, and what to do."""
    asked = environment.get("JAX_PLATFORMS", "")
    if asked and not {platform, "gpu" if platform == "cuda" else platform} & set(asked.split(",")):
        return f"JAX_PLATFORMS={asked} leaves it out; unset that"
    if platform == "cuda" and environment.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides it; unset that"
    found = {name: version for name in plugins if (version := installed_version(name))}
    if not found:
        return f'pip install "jax[{extra}]"'
    versions = ", ".join(f"{name} {version}" for name, version in found.items())
    if platform == "cuda" and installed_version("jaxlib") not in found.values():
        return f'{versions} does not fit jaxlib {installed_version("jaxlib")}; pip install --upgrade "jax[{extra}]"'
    return f"{versions} is installed and fails; JAX_PLATFORMS={platform} python -c 'import jax; jax.devices()' says why"


def installed_version(package: str) -> str | None:
    """The version of an installed package; None if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
