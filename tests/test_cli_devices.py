"""`jaxmatch devices` lists the devices of JAX."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from jaxmatch.cli import data
from jaxmatch.cli.main import main

ROOT = Path(__file__).parent.parent


def test_devices_are_listed(capsys):
    assert main(["devices"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    devices = jax.devices()
    assert first.startswith(f"JAX {jax.__version__} computes on {len(devices)} x ")
    assert [line.split(":")[0] for line in others] == [f"  {device.platform} {device.id}" for device in devices]


def test_memory_text_shows_the_memory_stats_of_the_platform():
    def text(platform, stats):
        return data.memory_text(SimpleNamespace(platform=platform, process_index=0, memory_stats=lambda: stats))

    assert (
        text("gpu", {"bytes_limit": 60 * 2**30, "bytes_in_use": 2**29}) == "60.0 GiB for this process, 0.5 GiB in use"
    )
    assert text("tpu", None) == "it does not report its memory"
    assert re.fullmatch(r"[0-9.]+ GiB, its share of this machine's memory", text("cpu", None))


def _command(*words, **variables):
    """Runs the command in a process whose environment variables select the devices."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu", **variables}
    return subprocess.run(
        [sys.executable, "-m", "jaxmatch", "devices", *words], env=environment, capture_output=True, text=True
    )


def test_simulated_devices_are_listed():
    done = _command(XLA_FLAGS="--xla_force_host_platform_device_count=3")
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert "computes on 3 x cpu (" in first
    assert [line.split(":")[0] for line in others] == ["  cpu 0", "  cpu 1", "  cpu 2"]


@pytest.mark.parametrize("platforms", ["nonsense", "cuda"])
def test_unavailable_platforms_are_reported_in_one_line(platforms):
    if jax.default_backend() == "gpu":
        pytest.skip("CUDA is available")
    done = _command(JAX_PLATFORMS=platforms)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("jaxmatch:"))
    assert "JAX finds no device" in line and "Traceback" not in done.stderr
