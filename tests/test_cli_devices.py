"""`jaxmatch devices` lists the devices of JAX."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parent.parent


def _command(**variables):
    """Runs the command in a process whose environment variables select the devices."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu", **variables}
    words = [sys.executable, "-m", "jaxmatch", "devices"]
    return subprocess.run(words, env=environment, capture_output=True, text=True)


def test_simulated_devices_are_listed():
    done = _command(XLA_FLAGS="--xla_force_host_platform_device_count=3")
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert "computes on 3 x cpu (" in first
    for number, line in enumerate(others):
        assert re.fullmatch(rf"  cpu {number}: [0-9.]+ GiB for this process", line)
    assert len(others) == 3


@pytest.mark.parametrize("platforms", ["nonsense", "cuda"])
def test_unavailable_platforms_are_reported_in_one_line(platforms):
    if jax.default_backend() == "gpu":
        pytest.skip("CUDA is available")
    done = _command(JAX_PLATFORMS=platforms)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("jaxmatch:"))
    assert "JAX finds no device" in line and "Traceback" not in done.stderr
