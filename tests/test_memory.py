import jax
import pytest
from small_cohort import DIMENSIONS, MODEL, OPTIMIZER

from benchmarks import memory_worker
from jaxmatch import models
from jaxmatch.experiments import memory


def needed(batch=16, length=8, **changes):
    return memory.replica_bytes(models.build({**MODEL, **changes}, outputs=2), "classification", DIMENSIONS, batch, length)


def test_a_replica_needs_more_for_more():
    base = needed()
    assert needed(batch=32) > base
    assert needed(length=16) > base
    assert needed(hidden_size=16) > base
    assert needed(blocks=2) > base
    # What is kept for the backward pass grows with the batch; parameters do not.
    steps = [needed(batch=batch) for batch in (16, 32, 48)]
    assert abs((steps[2] - steps[1]) - (steps[1] - steps[0])) < 0.01 * base


def test_every_device_holds_a_replica_at_least():
    devices = tuple(jax.devices())
    available = memory.device_bytes(devices[0])
    assert available > 2**28
    assert memory.replicas_that_fit(10 * available, devices) == len(devices)
    assert memory.replicas_that_fit(available // 10, devices) == 7 * len(devices)


@pytest.mark.slow
def test_the_estimate_is_near_what_the_compiler_takes():
    """A model small enough to compile in a test; `python -m benchmarks memory` does the same at full size, within 20 %."""
    model = dict(name="re2", blocks=2, encoder_layers=1, hidden_size=48)
    settings = {"replicas": 2, "batch": 64, "length": 16, "words": 50, "dimensions": 96, "classes": 3}
    answer = memory_worker.measure(model, OPTIMIZER, **settings)
    if answer["compiled"] is None:
        pytest.skip("the compiler does not tell")
    assert answer["compiled"] / 2 == pytest.approx(answer["estimate"], rel=0.25)
