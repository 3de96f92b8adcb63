"""Training with batches of pairs of different lengths."""

import numpy as np
import pytest
from small_cohort import InterruptAfter, Interruption, alike, make_cohort, same

from jaxmatch.training import programs
from jaxmatch.training.checkpoints import Checkpoints

MIXED = {"mix_lengths": True, "maximum_buckets": 3, "batch_size": 4, "epochs": 2}


def cohort(**execution):
    return make_cohort(training=MIXED, execution=execution)


@pytest.fixture(scope="module")
def results():
    return cohort().train()


def test_batches_of_different_lengths_share_arrays_and_are_padded_to_the_planned_lengths(results):
    replicas = cohort().lockstep
    train = replicas.batches
    epochs = [replicas.epoch(number) for number in range(3)]
    for epoch in epochs:
        assert epoch.batches.keys() == epoch.shapes.keys() == {0, 1, 2}
        assert len({id(arrays) for arrays in epoch.batches.values()}) == 1
        assert [shape.length for shape in epoch.shapes.values()] == list(train.buckets)
        assert np.diff(epoch.samples, prepend=epoch.samples[0] - 4).tolist().count(4) >= 16  # 70 pairs, 18 batches
    assert [epoch.samples[-1] for epoch in epochs] == [70, 140, 210]
    assert not np.array_equal(epochs[0].sequence, epochs[1].sequence)


def test_a_run_alone_has_the_batches_that_it_has_in_a_cohort():
    together, alone = (make_cohort(seeds=seeds, training=MIXED).lockstep for seeds in ((1, 2, 3), (2,)))
    for number in range(3):
        one, other = together.epoch(number), alone.epoch(number)
        np.testing.assert_array_equal(one.sequence, other.sequence)
        for bucket in other.batches:
            for of_all, of_one in zip(one.batches[bucket], other.batches[bucket], strict=True):
                np.testing.assert_array_equal(of_all[1], of_one[0])
            assert not np.array_equal(one.batches[bucket][0][0], one.batches[bucket][0][1])  # the runs do differ


def test_several_steps_in_a_dispatch_and_resumed_training_give_equal_results(results, tmp_path):
    alike(cohort(steps_at_once=16).train(), results, rtol=1e-4, atol=1e-5)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with pytest.raises(Interruption):
        cohort().train(checkpoints, InterruptAfter(23))  # in the second epoch
    same(cohort().train(checkpoints), results)
    checkpoints.close()


def test_steps_of_all_lengths_are_compiled_in_the_first_epoch(monkeypatch):
    """Also those of lengths that the first epoch does not need."""
    monkeypatch.setattr(programs, "cores", lambda: 4)
    # No other test has these shapes.
    replicas = make_cohort(seeds=range(5), training=MIXED | {"batch_size": 16}).lockstep
    assert len(replicas.buckets) == 2 and set(replicas.epoch(0).sequence[:, 0]) == {1}
    assert set(replicas.epoch(1).sequence[:, 0]) == {0, 1}
    train = replicas.programs.train
    monkeypatch.setattr(train, "compiles_in_parallel", True)
    before = train.compilations
    replicas.compile_lengths(replicas.initial(), replicas.epoch(0))
    assert train.compilations == before + 2
    state = replicas.initial()
    for number in range(2):
        epoch = replicas.epoch(number)
        for index in range(len(epoch.sequence)):
            state = replicas.step(state, epoch, index)
    assert train.compilations == before + 2
