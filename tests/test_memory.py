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
from jaxmatch import models
from jaxmatch.sweep import memory
from jaxmatch.training.evaluation import device_split


def needed(batch=16, length=8, **changes):
    module = models.build({**MODEL, **changes}, outputs=2)
    return memory.needs(module, "classification", DIMENSIONS, [(batch, length)], "gpu").of(1)


def test_a_replica_needs_more_for_more():
    base = needed()
    assert needed(batch=32) > base
    assert needed(length=16) > base
    assert needed(hidden_size=16) > base
    assert needed(blocks=2) > base
    # The values stored for the backward pass grow with the batch; parameters do not.
    steps = [needed(batch=batch) for batch in (16, 32, 48)]
    assert abs((steps[2] - steps[1]) - (steps[1] - steps[0])) < 0.01 * base


def test_every_device_holds_a_replica_at_least():
    devices = tuple(jax.devices())
    available = memory.device_bytes(devices[0])
    assert available > 2**28
    assert memory.Needs(10 * available, 0, None).that_fit(devices) == len(devices)
    assert memory.Needs(available // 10, 0, None).that_fit(devices) == 7 * len(devices)


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 64), st.floats(1, 10**9), st.data())
def test_what_fits_needs_no_more_than_there_is(step, parameters, most, room, data):
    """Fewer replicas must fit, too: the last cohort of a signature has fewer, and so has one that has been halved."""
    needs = memory.Needs(step, parameters, most)
    fit = needs.within(room)
    fewer = data.draw(st.integers(1, fit))
    assert needs.of(fewer) <= room or fewer == 1
    # Replicas need more memory side by side, so more of them fit where only `most` are side by side.
    assert fit >= memory.Needs(step, parameters, None).within(room) or fit >= most


def test_a_step_on_a_cpu_holds_a_few_replicas_and_the_state_of_all():
    needs = memory.Needs(step=1000, parameters=10, most=4)
    assert needs.of(4) == 4 * (1000 + 40)
    assert needs.of(10) == 2 * 1000 + 10 * 70  # two at a time, five times
    assert needs.of(7) == 1000 + 7 * 70


@pytest.mark.slow
def test_the_estimate_is_near_what_the_compiler_takes():
    """The model is small enough to compile in a test; `python -m benchmarks memory` does the same at full size. XLA of
    JAX 0.11 takes 0.62 of the estimate, and XLA of JAX 0.10 takes 0.85 of it.
    """
    model = dict(name="re2", blocks=2, encoder_layers=1, hidden_size=48)
    settings = {"replicas": 2, "batch": 64, "length": 16, "words": 50, "dimensions": 96, "classes": 3}
    answer = memory_worker.measure(model, OPTIMIZER, **settings)
    if answer["compiled"] is None:
        pytest.skip("the compiler does not tell")
    assert 0.55 < answer["compiled"] / memory.Needs(**answer["needs"]).of(2) < 1.1


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
def test_what_a_container_or_a_batch_system_grants_is_a_limit(tmp_path, groups, files, limits):
    (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    assert memory.granted_bytes(tmp_path / "cgroup", tmp_path / "root") == limits
    assert memory.granted_bytes(tmp_path / "none", tmp_path / "root") == []


def test_a_device_offers_no_more_than_is_granted(monkeypatch):
    (device, *_) = jax.devices()
    if device.platform != "cpu":
        pytest.skip("of a CPU")
    monkeypatch.setattr(memory, "granted_bytes", lambda: [10_000 * len(jax.devices())])
    assert memory.device_bytes(device) == 10_000


def test_where_nothing_limits_a_process_a_device_offers_what_the_machine_has(monkeypatch):
    """A laptop has no limit; a container has one."""
    (device, *_) = jax.devices()
    if device.platform != "cpu":
        pytest.skip("of a CPU")
    monkeypatch.setattr(memory, "granted_bytes", lambda: [])
    assert memory.device_bytes(device) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // len(jax.devices())


def test_an_evaluation_of_more_rows_counts_where_all_replicas_are_side_by_side():
    module = models.build(MODEL, outputs=3)
    needs = functools.partial(memory.needs, module, "classification", DIMENSIONS, [(4, 8)])
    shape = (module, "classification", DIMENSIONS, 4, 8, "gpu")
    assert memory.answer_bytes(*shape) < memory.step_bytes(*shape)
    assert needs("gpu", [(4, 8)]) == needs("gpu")
    answered = memory.answer_bytes(module, "classification", DIMENSIONS, 512, 8, "gpu")
    assert needs("gpu", [(4, 8), (512, 8)]).step == answered > needs("gpu").step
    assert needs("cpu", [(512, 8)]) == needs("cpu")


def test_an_accelerator_that_does_not_tell_is_not_taken_for_its_host():
    device = types.SimpleNamespace(platform="gpu", memory_stats=lambda: None)
    assert memory.device_bytes(device) == 8 * 2**30


def test_what_replicas_share_is_the_vectors_and_the_padded_pairs():
    data = small_cohort.make_data()
    splits = [device_split(split) for split in data.splits.values()]
    held = [values for split in splits for values in (*split["tokens"].values(), split["sentences"])]
    assert memory.shared_bytes(data) == data.vectors.nbytes + sum(values.nbytes for values in held)
    needs = memory.Needs(step=1000, parameters=10, most=None)
    assert needs.that_fit(jax.devices(), memory.device_bytes(jax.devices()[0])) == len(jax.devices())  # no room is left
