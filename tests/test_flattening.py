"""Parameters end to end, with zeros behind them that cores share evenly."""

import jax
import numpy as np
import pytest
from small_cohort import MODEL, InterruptAfter, Interruption, leaves, make_cohort

from jaxmatch import models
from jaxmatch.training import cohort as cohort_module
from jaxmatch.training import lockstep, step
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.progress import Listener

EVEN = 64


@pytest.fixture
def lengthen(monkeypatch):
    """Lets small models have zeros behind their parameters, too."""

    def forget():
        step.flattening.cache_clear()
        lockstep.programs.cache_clear()

    def lengthen():
        monkeypatch.setattr(step, "_CUT_FROM", 0)
        monkeypatch.setattr(step, "_EVEN", EVEN)
        forget()

    forget()
    yield lengthen
    forget()


def small():
    return models.build(MODEL, outputs=2)


def test_there_and_back(lengthen):
    lengthen()
    flat = step.flattening(small(), 6)
    assert flat.length % EVEN == 0 and 0 < flat.length - flat.count < EVEN
    values = np.arange(1, flat.count + 1, dtype=np.float32)
    tree = flat.to_tree(flat.lengthened(values))
    assert sum(leaf.size for leaf in jax.tree.leaves(tree)) == flat.count
    there = np.asarray(flat.to_array(tree))
    np.testing.assert_array_equal(there[: flat.count], values)
    np.testing.assert_array_equal(there[flat.count :], 0)


def test_lengthened_once_only(lengthen):
    lengthen()
    flat = step.flattening(small(), 6)
    once = flat.lengthened(np.ones((3, flat.count), np.float32))
    assert once.shape == (3, flat.length) and isinstance(once, np.ndarray)
    np.testing.assert_array_equal(flat.lengthened(once), once)


def test_only_long_arrays_are_lengthened():
    flat = step.flattening(small(), 6)
    assert flat.length == flat.count
    flat = step.flattening(models.build({**MODEL, "hidden_size": 150, "blocks": 2}, outputs=3), 300)
    assert flat.count > 100_000 and all(
        flat.length % pieces == 0 for pieces in (2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 64, 128)
    )
    assert flat.length < 1.5 * flat.count


def test_zeros_stay_zeros_and_a_checkpoint_without_them_is_gone_on_from(lengthen, tmp_path, monkeypatch):
    monkeypatch.setattr(cohort_module, "SECONDS_BETWEEN_LOOKS", 0.0)  # look after every step
    expected = make_cohort().train()
    stopped = make_cohort(execution={"checkpoint_seconds": 1e-9})
    with pytest.raises(Interruption):
        stopped.train(Checkpoints(tmp_path), InterruptAfter(7))
    short = stopped.lockstep.programs.flat.length
    lengthen()
    resumed = make_cohort()
    flat = resumed.lockstep.programs.flat
    assert flat.count == short < flat.length
    like = resumed.lockstep.initial()
    state, best = resumed._restore(Checkpoints(tmp_path), like, like.parameters, Listener())
    for array in (best, state.parameters, *jax.tree.leaves(state.optimizer_state)):
        if array.ndim > 1:
            np.testing.assert_array_equal(array[:, flat.count :], 0)
    epoch = resumed.lockstep.epoch(0)
    after = resumed.lockstep.step(resumed.lockstep.by_replica(state), epoch, 0)
    assert np.abs(np.asarray(after.parameters)[:, : flat.count] - state.parameters[:, : flat.count]).max() > 0
    np.testing.assert_array_equal(np.asarray(after.parameters)[:, flat.count :], 0)
    for one, other in zip(make_cohort().train(Checkpoints(tmp_path)), expected, strict=True):
        assert one.progress.best == pytest.approx(other.progress.best)
        for own, wanted in zip(leaves(one), leaves(other), strict=True):
            np.testing.assert_allclose(own, wanted, rtol=1e-4, atol=1e-6)
