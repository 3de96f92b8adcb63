"""Several devices: the replica axis is sharded, results do not change, and steps need no communication."""

import types

import jax
import pytest
from small_sweep import on_devices

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
