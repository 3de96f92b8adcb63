"""`jaxmatch devices`: lists the devices of JAX and tries them."""

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
from jaxmatch.devices import products_of
from jaxmatch.layers.core import PRECISIONS
from jaxmatch.sweep import trial

ROOT = Path(__file__).parent.parent
H100 = SimpleNamespace(platform="gpu", id=0, compute_capability="9.0")


@pytest.fixture
def small(monkeypatch):
    """Makes the trial so small that it takes seconds."""
    monkeypatch.setattr(trial, "MODEL", trial.MODEL | {"hidden_size": 8})
    for name, value in {"BATCH": 4, "LENGTH": 4, "DIMENSIONS": 6, "WORDS": 9, "SECONDS_OF_A_REPEAT": 1e-3}.items():
        monkeypatch.setattr(trial, name, value)


def test_devices_are_listed_and_each_matmul_precision_is_tried(small, capsys):
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    all_devices = jax.devices()
    assert lines[0].startswith(f"JAX {jax.__version__} computes on {len(all_devices)} x ")
    assert [line.split(":")[0] for line in lines[1 : 1 + len(all_devices)]] == [
        f"  {device.platform} {device.id}" for device in all_devices
    ]
    tried = [
        re.fullmatch(r"  model\.precision=(.*) \((.*) products\): [0-9.]+ ms, compiled in [0-9.]+ s", line)
        for line in lines
    ]
    reported = {precision: one[2] for one in tried if one for precision in one[1].split(" or ")}
    assert reported == {precision: products_of(precision, all_devices[0]) for precision in PRECISIONS}
    kinds = [one[2] for one in tried if one]
    assert len(kinds) == len(set(kinds))


def test_a_trial_with_a_non_finite_loss_is_a_problem(small, monkeypatch):
    monkeypatch.setattr(trial, "SETTINGS", trial.SETTINGS | {"learning_rate": 1e38})
    monkeypatch.setattr(trial, "PRECISIONS", ("float32",))
    assert [one.problem for one in trial.trials(jax.devices()[0])] == ["the loss is not finite"]


def test_the_trial_step_is_compiled_like_training_on_the_platform(small, monkeypatch):
    given = []
    monkeypatch.setattr(trial, "compiler_options", lambda platform: given.append(platform))
    made = trial.flattening
    monkeypatch.setattr(trial, "flattening", lambda *a, platform: given.append(platform) or made(*a, platform=platform))
    trial.seconds_of("float32", "gpu")
    assert given == ["gpu", "gpu"]


def test_a_precision_that_fails_is_reported_and_the_others_are_tried(monkeypatch, capsys):
    def seconds(precision, platform):
        if precision == "bfloat16":
            return 2.0, 0.00125
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: no such products\nand more")

    monkeypatch.setattr(trial, "seconds_of", seconds)
    monkeypatch.setattr(jax, "default_device", lambda device: jax.default_matmul_precision(None))
    data.try_device(H100)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  model.precision=highest (float32 products): UNIMPLEMENTED: no such products",
        "  model.precision=float32 or tensorfloat32 (TF32 products): UNIMPLEMENTED: no such products",
        "  model.precision=bfloat16 (bfloat16 products): 1.25 ms, compiled in 2.0 s",
    ]


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
    done = _command("--no-trial", XLA_FLAGS="--xla_force_host_platform_device_count=3")
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
