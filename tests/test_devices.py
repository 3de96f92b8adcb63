"""Several devices: the replica axis is spread over them, results stay, and nobody talks to anybody in a step."""

import os
import subprocess
import sys

import pytest

# Devices are fixed when JAX starts, so this needs a process of its own.
PROGRAM = """
import pathlib, tempfile
import jax, numpy as np
from jaxmatch.training.checkpoints import Checkpoints
from small_cohort import leaves, make_cohort
from jaxmatch.training import replicas

assert len(jax.devices()) == 8
training = {"epochs": 2, "maximum_buckets": 1}
arguments = dict(seeds=(1, 2, 3, 4, 5), training=training)  # five runs: three devices hold a filler
spread = make_cohort(**arguments)
one = make_cohort(**arguments, devices=jax.devices()[:1])
alone = one.train()

def check(results):
    for left, right in zip(results, alone, strict=True):
        assert [e["samples"] for e in left.progress.curve] == [e["samples"] for e in right.progress.curve]
        np.testing.assert_allclose(left.test["loss"], right.test["loss"], atol=1e-5)
        for a, b in zip(leaves(left), leaves(right), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)

check(spread.train())
replicas.PAIRS_AT_ONCE_ON_A_CPU = 16  # of three replicas on a device each has its turn
check(make_cohort(**arguments, devices=jax.devices()[:2]).train())
for program in (spread.lockstep.programs.train, spread.lockstep.programs.evaluate):
    for compiled in program.executables.values():
        text = compiled.as_text()
        assert "num_partitions=8" in text
        for word in ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter"):
            assert word not in text, word
# Begun on one number of devices, taken up on another.
with tempfile.TemporaryDirectory() as folder:
    for number, (first, second) in enumerate([(jax.devices()[:1], jax.devices()), (jax.devices(), jax.devices()[:1])]):
        checkpoints = Checkpoints(pathlib.Path(folder) / str(number))
        assert make_cohort(**arguments, devices=first).train(checkpoints, until=1) is None
        later = make_cohort(**arguments, devices=second)
        check(later.train(checkpoints))
        assert len(later.lockstep.slots) == (8 if len(second) == 8 else 5)
        checkpoints.close()
# The scans of an LSTM: what they carry begins as zeros that are the same on every device, and does not stay so.
model = {"name": "siamese", "hidden_size": 4, "head_size": 4}
arguments = dict(seeds=(1, 2, 3), training={"epochs": 1, "maximum_buckets": 1}, model=model)
alone = make_cohort(**arguments, devices=jax.devices()[:1]).train()
check(make_cohort(**arguments, devices=jax.devices()[:2]).train())
print("eight devices agree with one")
"""


@pytest.mark.slow
def test_eight_devices_give_what_one_gives():
    folder = os.path.dirname(__file__)
    path = os.pathsep.join([folder, os.path.dirname(folder), os.environ.get("PYTHONPATH", "")])
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "eight devices agree with one" in done.stdout
