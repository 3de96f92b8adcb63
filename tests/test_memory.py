import functools
import os
import types

import jax
import pytest
import small_cohort
from hypothesis import given
from hypothesis import strategies as st
from small_cohort import DIMENSIONS, MODEL, OPTIMIZER

from benchmarks import memory_worker
from benchmarks.accelerators import worker
from jaxmatch import models
from jaxmatch.sweep import memory
from jaxmatch.training.evaluation import device_split


def needed(batch=16, length=8, **changes):
    module = models.build({**MODEL, **changes}, outputs=2)
    return memory.needs(module, "classification", DIMENSIONS, [(batch, length)], "gpu").of(1)


def test_needed_memory_grows_with_batch_length_and_model_size():
    base = needed()
    assert needed(batch=32) > base
    assert needed(length=16) > base
    assert needed(hidden_size=16) > base
    assert needed(blocks=2) > base
    # The values stored for the backward pass grow with the batch; parameters do not.
    steps = [needed(batch=batch) for batch in (16, 32, 48)]
    assert abs((steps[2] - steps[1]) - (steps[1] - steps[0])) < 0.01 * base


def test_every_device_holds_at_least_one_replica():
    devices = tuple(jax.devices())
    available = memory.device_bytes(devices[0])
    assert available > 2**28
    assert memory.Needs(10 * available, 0, None).that_fit(devices) == len(devices)
    assert memory.Needs(available // 10, 0, None).that_fit(devices) == 7 * len(devices)


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 64), st.floats(1, 10**9), st.data())
def test_replicas_that_fit_need_no_more_than_the_available_memory(step, parameters, most, room, data):
    """Fewer replicas must fit, too: the last cohort of a signature has fewer, and so has one that has been halved."""
    needs = memory.Needs(step, parameters, most)
    fit = needs.within(room)
    fewer = data.draw(st.integers(1, fit))
    assert needs.of(fewer) <= room or fewer == 1
    # Concurrent replicas need more memory, so more replicas fit if only `most` are computed concurrently.
    assert fit >= memory.Needs(step, parameters, None).within(room) or fit >= most


def test_cpu_step_memory_is_of_concurrent_replicas_and_all_states():
    needs = memory.Needs(step=1000, parameters=10, most=4)
    assert needs.of(4) == 4 * (1000 + 40)
    assert needs.of(10) == 2 * 1000 + 10 * 70  # two at a time, five times
    assert needs.of(7) == 1000 + 7 * 70


@pytest.mark.slow
def test_estimate_is_close_to_the_memory_of_the_compiled_program():
    """The model is small enough to compile in a test; `python -m benchmarks memory` does the same at full size. XLA of
    JAX 0.11 takes 0.62 of the estimate, and XLA of JAX 0.10 takes 0.85 of it.
    """
    model = dict(name="re2", blocks=2, encoder_layers=1, hidden_size=48)
    settings = {"replicas": 2, "batch": 64, "length": 16, "words": 50, "dimensions": 96, "classes": 3}
    measured = memory_worker.measure(model, OPTIMIZER, **settings)
    if measured["compiled"] is None:
        pytest.skip("the compiler does not report its memory use")
    assert 0.55 < measured["compiled"] / memory.Needs(**measured["needs"]).of(2) < 1.1


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        ("0::/\n", {"memory.max": "17179869184\n"}, [17179869184]),
        ("0::/job/step\n", {"job/step/memory.max": "max\n", "job/memory.max": "9000\n", "memory.max": "max\n"}, [9000]),
        ("4:memory:/job\n3:cpu:/\n", {"memory/job/memory.limit_in_bytes": "5000\n", "memory.max": "1\n"}, [5000]),
        ("4:memory:/of/the/host\n0::/\n", {"memory/memory.limit_in_bytes": "6000\n"}, [6000]),  # seen from a container
        ("nothing\n", {}, []),
    ],
)
def test_memory_limits_of_control_groups_are_read(tmp_path, groups, files, limits):
    (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    assert memory.granted_bytes(tmp_path / "cgroup", tmp_path / "root") == limits
    assert memory.granted_bytes(tmp_path / "none", tmp_path / "root") == []


def test_device_memory_is_capped_by_the_granted_limit(monkeypatch):
    (device, *_) = jax.devices()
    if device.platform != "cpu":
        pytest.skip("needs a CPU")
    monkeypatch.setattr(memory, "granted_bytes", lambda: [10_000 * len(jax.devices())])
    assert memory.device_bytes(device) == 10_000


def test_device_memory_without_limits_is_its_share_of_physical_memory(monkeypatch):
    """A laptop has no limit; a container has one."""
    (device, *_) = jax.devices()
    if device.platform != "cpu":
        pytest.skip("needs a CPU")
    monkeypatch.setattr(memory, "granted_bytes", lambda: [])
    assert memory.device_bytes(device) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // len(jax.devices())


def test_larger_evaluation_batches_raise_the_need_on_gpus_but_not_on_cpus():
    module = models.build(MODEL, outputs=3)
    needs = functools.partial(memory.needs, module, "classification", DIMENSIONS, [(4, 8)])
    shape = (module, "classification", DIMENSIONS, 4, 8, "gpu")
    assert memory.answer_bytes(*shape) < memory.step_bytes(*shape)
    assert needs("gpu", [(4, 8)]) == needs("gpu")
    evaluation_bytes = memory.answer_bytes(module, "classification", DIMENSIONS, 512, 8, "gpu")
    assert needs("gpu", [(4, 8), (512, 8)]).step == evaluation_bytes > needs("gpu").step
    assert needs("cpu", [(512, 8)]) == needs("cpu")


@pytest.mark.parametrize(("precision", "runs"), [("float32", 10), ("bfloat16", 20)])
def test_runs_that_fit_a_tpu_as_compiled_are_one_cohort(precision, runs):
    """RE2 of configs/re2_snli.py at batch 512, with rows of 40 tokens, on a v5e (docs/benchmarks.md)."""
    module = worker.module_of({"model": "re2", "precision": precision})
    needs = memory.needs(module, "classification", 300, [(512, 40)], "tpu", answered=[(512, 40)])
    device = types.SimpleNamespace(platform="tpu", memory_stats=lambda: {"bytes_limit": int(15.75 * 2**30)})
    assert runs <= needs.that_fit([device], shared=300_000_000) < 1.5 * runs


def test_accelerator_without_memory_stats_has_a_default_size():
    device = types.SimpleNamespace(platform="gpu", memory_stats=lambda: None)
    assert memory.device_bytes(device) == 8 * 2**30


def test_shared_memory_is_that_of_the_vectors_and_the_padded_pairs():
    data = small_cohort.make_data()
    splits = [device_split(split) for split in data.splits.values()]
    held = [values for split in splits for values in (*split["tokens"].values(), split["sentences"])]
    assert memory.shared_bytes(data) == data.vectors.nbytes + sum(values.nbytes for values in held)
    needs = memory.Needs(step=1000, parameters=10, most=None)
    assert needs.that_fit(jax.devices(), memory.device_bytes(jax.devices()[0])) == len(jax.devices())  # no room is left
