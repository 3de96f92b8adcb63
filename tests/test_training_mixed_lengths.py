"""Training with batches of pairs of different lengths."""

import numpy as np
import pytest
from small_cohort import InterruptAfter, Interruption, alike, make_cohort, same

from jaxmatch.training import chunks, programs
from jaxmatch.training.checkpoints import Checkpoints

MIXED = {"mix_lengths": True, "maximum_buckets": 3, "batch_size": 4, "epochs": 2}


@pytest.fixture(scope="module")
def results():
    return make_cohort(training=MIXED).train()


def test_batches_of_different_lengths_are_padded_to_the_planned_lengths(monkeypatch):
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)
    cohort = make_cohort(training=MIXED)
    cohort.chunks.initialize()
    epochs = [cohort.chunks.epoch(number) for number in range(3)]
    for epoch in epochs:
        assert cohort.chunks.chunks[0].batches.keys() == {0} and epoch.shapes.keys() == {0, 1, 2}
        assert [shape.length for shape in epoch.shapes.values()] == list(cohort.chunks.batches.buckets)
        assert np.diff(epoch.samples, prepend=epoch.samples[0] - 4).tolist().count(4) >= 16  # 70 pairs, 18 batches
    assert [epoch.samples[-1] for epoch in epochs] == [70, 140, 210]
    assert not np.array_equal(epochs[0].sequence, epochs[1].sequence)


def test_lengths_that_share_a_program_and_resumed_training_give_equal_results(results, tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with pytest.raises(Interruption):
        make_cohort(training=MIXED).train(checkpoints, InterruptAfter(23))  # in the second epoch
    same(make_cohort(training=MIXED).train(checkpoints), results)
    checkpoints.close()
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)
    alike(make_cohort(training=MIXED).train(), results, rtol=1e-4, atol=1e-5)


def test_steps_of_all_lengths_are_compiled_in_the_first_epoch(monkeypatch):
    """Also those of lengths that the first epoch does not need."""
    monkeypatch.setattr(programs, "cores", lambda: 4)
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)
    # No other test has these shapes.
    replicas = make_cohort(seeds=range(7), training=MIXED | {"batch_size": 16}).chunks
    replicas.initialize()
    replicas.activate(np.ones(7, bool))
    epochs = [replicas.epoch(number) for number in range(2)]
    assert [set(epoch.sequence[:, 0]) for epoch in epochs] == [{1}, {0, 1}]
    train = replicas.programs.train
    monkeypatch.setattr(train, "compiles_in_parallel", True)
    before = train.compilations
    replicas.compile(replicas.epoch(0))
    assert train.compilations == before + 2
    for number in range(2):
        epoch = replicas.epoch(number)
        for index in range(len(epoch.sequence)):
            replicas.step(epoch, index)
    assert train.compilations == before + 2
