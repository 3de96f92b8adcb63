"""Several devices: the replica axis is sharded, results do not change, and steps need no communication."""

import os
import subprocess
import sys
import types

import jax
import pytest
from small_sweep import on_devices

from jaxmatch import devices
from jaxmatch.devices import available_devices
from jaxmatch.errors import InputError

# JAX fixes its devices when it starts, so this program needs its own process.
PROGRAM = """
import pathlib, tempfile
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxmatch.layers.core import random_levels
from jaxmatch.training.checkpoints import Checkpoints
from small_cohort import alike, make_cohort
from jaxmatch.training import chunks

assert len(jax.devices()) == 8
# The random numbers of dropout are the same bits on eight devices and on one.
keys = jax.random.split(jax.random.key(3), 8)
mesh = jax.make_mesh((8,), ("replica",))
sharded = jax.device_put(keys, NamedSharding(mesh, PartitionSpec("replica")))
levels = jax.jit(jax.vmap(lambda key: random_levels(key, (4, 6))))
assert len(levels(sharded).sharding.device_set) == 8
np.testing.assert_array_equal(levels(sharded), [random_levels(key, (4, 6)) for key in keys])
training = {"epochs": 2, "maximum_buckets": 1}
still = {"learning_rate": 0.0, "learning_rate_floor": 0.0}  # its checkpoint is the first one
optimizer = [{}, still, {}, still, {}]
# Five runs: three devices hold a filler.
arguments = dict(seeds=(1, 2, 3, 4, 5), optimizer=optimizer, training=training)
spread = make_cohort(**arguments)
one = make_cohort(**arguments, devices=jax.devices()[:1])
single = one.train()

def check(results):
    alike(results, single, atol=1e-5)
    np.testing.assert_allclose([one.test["loss"] for one in results], [one.test["loss"] for one in single], atol=1e-5)

check(spread.train())
for program in (spread.chunks.programs.train, spread.chunks.programs.evaluate):
    for compiled in program.executables.values():
        text = compiled.as_text()
        assert "num_partitions=8" in text
        for word in ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter"):
            assert word not in text, word
# Started on one number of devices, and resumed on another.
with tempfile.TemporaryDirectory() as folder:
    for number, (first, second) in enumerate([(jax.devices()[:1], jax.devices()), (jax.devices(), jax.devices()[:1])]):
        checkpoints = Checkpoints(pathlib.Path(folder) / str(number))
        assert make_cohort(**arguments, devices=first).train(checkpoints, until=1) is None
        later = make_cohort(**arguments, devices=second)
        check(later.train(checkpoints))
        assert later.chunks.size == (8 if len(second) == 8 else 5)
    # The checkpoint has the state of two runs, and the chosen parameters of all.
    checkpoints, dropped = Checkpoints(pathlib.Path(folder) / "dropped"), {1: (0, 1, 2)}
    assert make_cohort(**arguments, devices=jax.devices()[:1]).train(checkpoints, until=1, dropped=dropped) is None
    left = make_cohort(**arguments).train(checkpoints, dropped=dropped)
    alike(left, make_cohort(**arguments).train(dropped=dropped), atol=1e-5)
chunks.PAIRS_AT_ONCE_ON_A_CPU = 16  # chunks of two slots, one on each device
check(make_cohort(**arguments, devices=jax.devices()[:2]).train())
# LSTM scans: the carry starts as zeros that are equal on every device, and then differs between devices.
model = {"name": "siamese", "hidden_size": 4, "head_size": 4}
arguments = dict(seeds=(1, 2, 3), training={"epochs": 1, "maximum_buckets": 1}, model=model)
single = make_cohort(**arguments, devices=jax.devices()[:1]).train()
check(make_cohort(**arguments, devices=jax.devices()[:2]).train())
print("eight devices agree with one")
"""


@pytest.mark.slow
def test_results_on_eight_devices_equal_those_on_one():
    assert "eight devices agree with one" in on_devices(8, [], "-c", PROGRAM)[0]


def test_devices_of_several_processes_require_distributed(monkeypatch):
    """This happens on a TPU slice whose hosts are listed by a metadata server only."""
    devices = [types.SimpleNamespace(process_index=process) for process in (0, 0, 1, 1)]
    monkeypatch.setattr(jax, "devices", lambda platform: devices)
    with pytest.raises(InputError, match="one of 2 processes that share 4 devices; train with --distributed"):
        available_devices()
    monkeypatch.setattr(jax, "devices", lambda platform: devices[:2])
    assert available_devices() == devices[:2]
    monkeypatch.setattr(jax, "devices", lambda platform: devices)
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    assert available_devices() == devices


# --- huge pages


EITHER = "always [madvise] never\n"


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A function that simulates a system and returns the restarted (program, arguments, variables), or None."""

    def start(enabled: str | None = EITHER, tunables: str | None = None):
        file, calls = tmp_path / "enabled", []
        if enabled is not None:
            file.write_text(enabled)

        def execve(*arguments):
            calls.append(arguments)
            raise OSError("no")  # is ignored

        monkeypatch.setattr(devices, "HUGE_PAGES_FILE", file)
        monkeypatch.setattr(os, "execve", execve)
        monkeypatch.setattr(sys, "orig_argv", ["python3", "-X", "dev", "-m", "jaxmatch", "sweep", "a b.py"])
        monkeypatch.delenv(devices.TUNABLES, raising=False)
        if tunables is not None:
            monkeypatch.setenv(devices.TUNABLES, tunables)
        devices.restart_with_huge_pages()
        return calls[0] if calls else None

    return start


def test_the_command_restarts_with_the_same_arguments_and_the_variable_set(started):
    program, words, variables = started()
    assert program == sys.executable
    assert words == [sys.executable, "-X", "dev", "-m", "jaxmatch", "sweep", "a b.py"]
    assert variables["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert variables["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    "system", [{"enabled": "[always] madvise never\n"}, {"enabled": None}, {"tunables": "glibc.malloc.hugetlb=0"}]
)
def test_there_is_no_restart_if_useless_or_already_configured(started, system):
    assert started(**system) is None


@pytest.mark.skipif("[madvise]" not in devices.huge_pages_setting(), reason="huge pages are for all or for nobody")
def test_a_real_command_restarts_once_with_the_variable_set():
    code = f"import os, runpy, sys; sys.argv = ['x', 'sweep', '--help']; print(os.environ.get('{devices.TUNABLES}'))"
    environment = {name: value for name, value in os.environ.items() if name != devices.TUNABLES}
    output = subprocess.run(
        [sys.executable, "-c", f"{code}; runpy.run_module('jaxmatch', run_name='__main__')"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    ).stdout.splitlines()
    assert output.count("glibc.malloc.hugetlb=1") == 1
