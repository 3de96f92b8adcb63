"""Reports which device JAX finds. This is a process of its own, because a process that asks JAX for a GPU takes its
memory.

python -m benchmarks.device.about '{"sent_at": 0}'
"""

import subprocess

import jax
from jax.extend.backend import get_backend

from benchmarks import fresh_process
from jaxmatch.sweep.recording import device_name, versions


def about() -> dict:
    """Returns the name of the device, its platform and driver, and the versions of the packages that a result may
    depend on.
    """
    return {
        "device": device_name(jax.devices()[:1]),
        "platform": jax.default_backend(),
        "driver": driver(),
        "versions": versions(),
    }


def driver() -> str:
    """Returns the version of NVIDIA's driver, or else what the backend says about itself, in one line."""
    if jax.default_backend() == "gpu":
        words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            return f"NVIDIA driver {output.splitlines()[0].strip()}"
        except (OSError, subprocess.CalledProcessError, IndexError):
            pass
    return " ".join(str(getattr(get_backend(), "platform_version", "")).split())


if __name__ == "__main__":
    fresh_process.request()
    fresh_process.answer(about())
