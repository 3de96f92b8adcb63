"""Accelerators that a machine has but JAX does not see, and the remedies."""

import os
import subprocess
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path

# The packages with XLA's compilers. (An extra of this package installs them. They work with the jaxlib of the same
# version.)
_CUDA, _TPU = ("jax-cuda12-plugin", "jax-cuda13-plugin"), ("libtpu",)
# Google's id as the vendor of a PCI device, and the device ids of its TPUs, v3 to v7x. (A network card of its cloud has
# the same vendor id.)
_GOOGLE = "0x1ae0"
_TPU_DEVICES = {"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"}
# The environment variables of a TPU's virtual machine.
_TPU_VARIABLES = ("TPU_NAME", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID")


def unseen_devices(
    platforms: Collection[str], root: Path = Path("/"), environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Describes the accelerators of this machine that JAX does not see, with the remedy for each kind.

    Arguments:
      platforms: the platforms of the devices that JAX sees, such as "gpu".
      root: the folder that holds `dev`, `proc` and `sys`.
      environment: the environment variables of this process.

    Returns:
      A line for NVIDIA GPUs and a line for TPUs, each only if JAX does not see them.
    """
    lines = []
    if "gpu" not in platforms and (gpu := _gpu(root)):
        lines.append(f"{gpu} is here, and JAX does not see it: {_remedy('cuda', _CUDA, 'cuda12', environment)}")
    if "tpu" not in platforms and _has_tpu(root, environment):
        lines.append(f"a TPU is here, and JAX does not see it: {_remedy('tpu', _TPU, 'tpu', environment)}")
    return lines


def _gpu(root: Path) -> str:
    """Returns the names of NVIDIA GPUs from nvidia-smi, "an NVIDIA GPU" if only the driver's files show it, or ""."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        output = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        output = ""
    if names := [line.strip() for line in output.splitlines() if line.strip()]:
        return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    visible = any((root / "dev").glob("nvidia[0-9]*")) or any((root / "proc/driver/nvidia/gpus").glob("*"))
    return "an NVIDIA GPU" if visible else ""


def _has_tpu(root: Path, environment: Mapping[str, str]) -> bool:
    """Returns whether the driver's files (older TPUs), a PCI device (newer TPUs) or the environment show a TPU."""
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
    """Returns the most likely reason why JAX does not see an accelerator, and what to do."""
    platforms = environment.get("JAX_PLATFORMS", "")
    if platforms and not {platform, "gpu" if platform == "cuda" else platform} & set(platforms.split(",")):
        return f"JAX_PLATFORMS={platforms} leaves it out; unset that"
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
    """Returns the version of a package, or None if the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
