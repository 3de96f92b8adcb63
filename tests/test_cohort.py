"""The invariants of training a cohort in chunks, for RE2 and other models."""

import time

import jax
import numpy as np
import pytest
from small_cohort import (
    EXECUTION,
    MODEL,
    OPTIMIZER,
    TRAINING,
    InterruptAfter,
    Interruption,
    alike,
    leaves,
    make_cohort,
    make_data,
    same,
    started,
    states,
    steps_of,
)

from jaxmatch.devices import is_out_of_memory
from jaxmatch.training import chunks
from jaxmatch.training import cohort as cohort_module
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort import Cohort
from jaxmatch.training.progress import Listener

CHANGES = [{}, {"learning_rate": 1e-3}, {"dropout_rate": 0.0}]
DIVERGING = {"learning_rate": 1e30, "gradient_clip": 0.0}
# A learning rate of 0 never improves, so patience stops the run.
STILL = {"learning_rate": 0.0, "learning_rate_floor": 0.0}


@pytest.fixture(scope="module")
def results():
    """Three runs that differ in seed, learning rate and dropout rate, trained to the end."""
    return make_cohort(optimizer=CHANGES).train()


def test_losses_of_a_run_alone_equal_its_losses_in_a_cohort():
    together = make_cohort(seeds=(7, 1, 2), optimizer=[{}, {"learning_rate": 1e-4}, {"dropout_rate": 0.5}])
    alone = make_cohort(seeds=(7,))
    losses_together, _ = steps_of(together, 20)
    losses_alone, _ = steps_of(alone, 20)
    for table, (rows, _) in alone.chunks.chunks[0].batches.items():
        np.testing.assert_array_equal(together.chunks.chunks[0].batches[table][0][0], rows[0])
    np.testing.assert_allclose(losses_together[:, 0], losses_alone[:, 0], atol=1e-5)
    assert losses_together.std(axis=1).max() > 1e-3  # the runs do differ


def test_diverged_run_is_marked_and_does_not_affect_other_runs(results):
    cohort = make_cohort(optimizer=[CHANGES[0], DIVERGING, CHANGES[2]])
    with jax.debug_nans(True), jax.debug_infs(True):  # as JAX_DEBUG_NANS and JAX_DEBUG_INFS
        with_diverged = cohort.train()
    assert np.isfinite(states(cohort).parameters).all()
    assert with_diverged[1].progress.diverged_at is not None
    assert all(np.isfinite(leaf).all() for leaf in leaves(with_diverged[1]))
    assert with_diverged[0].progress.diverged_at is with_diverged[2].progress.diverged_at is None
    same(with_diverged[::2], results[::2])


def test_outputs_that_are_not_finite_end_no_other_run():
    """The last finite parameters of a diverged run may have outputs that are not; all runs of a chunk are evaluated."""
    cohort = make_cohort(optimizer=[{}, {"learning_rate": 1e30}, {}], model={"fusion": "full", "prediction": "full"})
    with jax.debug_nans(True), jax.debug_infs(True):
        progress = [result.progress for result in cohort.train()]
    assert [each.status for each in progress] == ["finished", "diverged", "finished"]


def test_the_step_is_free_of_convolutions_and_host_transfers():
    cohort = make_cohort()
    steps_of(cohort, 10)
    for compiled in cohort.chunks.programs.train.executables.values():
        text = compiled.as_text()
        assert "dot(" in text  # the text does contain the program
        for word in (" convolution(", "infeed", "outfeed", "send(", "recv(", "callback", "all-reduce", "all-gather"):
            assert word not in text, word


def test_number_of_buckets_does_not_change_outputs(a_program_for_each_length):
    """The same parameters give the same outputs when dev is padded to other lengths."""
    one, three = make_cohort(training={"maximum_buckets": 1}), make_cohort(training={"maximum_buckets": 3})
    parameters = started(one).parameters
    np.testing.assert_allclose(
        one.evaluator.outputs("dev", parameters, 2), three.evaluator.outputs("dev", parameters, 2), atol=1e-5
    )
    widths = [{placed[1].shape[1] for *_, placed in cohort.evaluator.batches["dev"]} for cohort in (one, three)]
    assert [len(each) for each in widths] == [1, 3]


def test_interrupted_training_resumes_with_equal_results(results, tmp_path, monkeypatch):
    monkeypatch.setattr(cohort_module, "SECONDS_BETWEEN_POLLS", 0.0)  # check after every step
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for interruption in (7, 9):
        with pytest.raises(Interruption):
            make_cohort(optimizer=CHANGES).train(checkpoints, InterruptAfter(interruption))
    same(make_cohort(optimizer=CHANGES).train(checkpoints), results)


@pytest.mark.parametrize(
    ("task", "selection", "scores"),
    [("regression", "pearson", {"pearson", "spearman", "mse"}), ("ranking", "map", {"map", "mrr", "accuracy"})],
)
def test_regression_and_ranking_are_trained_and_scored(task, selection, scores):
    training = {"selection": selection, "epochs": 8, "maximum_buckets": 1}
    result = make_cohort(seeds=(1,), training=training, data=make_data(task)).train()[0]
    assert scores <= result.progress.best.keys()
    assert scores <= result.test.keys()
    if task == "ranking":
        labels = make_data(task).splits["test"].labels
        both = sum(set(labels[start : start + 4]) == {0, 1} for start in range(0, len(labels), 4))
        deviations = result.test_sampling["deviations"]
        assert result.test_sampling["questions"] == both and 0 < deviations["map"] < 0.5
        assert deviations["mrr"] > 0 and deviations["recall_at_5"] == 0  # no question has more candidates
    else:
        assert result.test_sampling is None
    curve = result.progress.curve
    assert curve[-1]["train_loss"] < curve[0]["train_loss"]


def test_paused_training_resumes_with_equal_results(results, tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    paused = make_cohort(optimizer=CHANGES)
    assert paused.train(checkpoints, until=2) is None
    assert [len(progress.curve) for progress in paused.runs] == [2] * 3
    again = make_cohort(optimizer=CHANGES)
    assert again.train(checkpoints, until=2) is None  # this epoch is already reached
    assert again.runs == paused.runs
    resumed = make_cohort(optimizer=CHANGES)
    same(resumed.train(checkpoints), results)
    steps = 4 * resumed.chunks.batches.steps_per_epoch
    assert resumed.steps == {"lockstep": steps, "replica": 3 * steps}


def test_dropped_run_stops_and_does_not_affect_other_runs(results, tmp_path):
    ended = make_cohort(optimizer=CHANGES).train(dropped={2: [1]})
    same(ended[::2], results[::2])
    dropped = ended[1]
    assert (dropped.progress.status, dropped.progress.dropped_at, dropped.test) == ("dropped", 140, None)
    assert dropped.progress.curve == results[1].progress.curve[:2]
    # A pause in between does not change the results, even if only the decision to drop a run is left to apply.
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert make_cohort(optimizer=CHANGES).train(checkpoints, until=2) is None
    same(make_cohort(optimizer=CHANGES).train(checkpoints, dropped={2: [1]}), ended)


def test_stopped_and_diverged_runs_keep_their_status_at_a_rung():
    """At a rung, one run has stopped and one has diverged. A pause detects divergence even before an evaluation."""
    changes = [STILL, DIVERGING, {}]
    training = {"patience_samples": 70, "evaluate_every_samples": 60, "epochs": 4}
    told = []
    listener = Listener()
    listener.evaluated = lambda *event: told.append(event)
    cohort = make_cohort(optimizer=changes, training=training)
    cohort.train(listener=listener, dropped={3: [0, 1, 2]})
    *_, (_, _, _, scores, stopped) = told  # of the stopped run its best score, and none of the diverged one
    assert (len(scores), stopped, scores[0]) == (2, 1, cohort.runs[0].best_score)
    assert [progress.status for progress in cohort.runs][:2] == ["finished", "diverged"]
    late = make_cohort(optimizer=changes[1:] + [{}], training=training | {"evaluate_every_samples": 400})
    assert late.train(until=2) is None
    assert [progress.diverged_at is not None for progress in late.runs] == [True, False, False]
    assert all(not progress.curve for progress in late.runs)


@pytest.fixture
def a_program_for_each_length(monkeypatch):
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)


@pytest.fixture
def two_at_once(monkeypatch):
    """Chunks of two slots."""
    monkeypatch.setattr(chunks, "PAIRS_AT_ONCE_ON_A_CPU", 32)


@pytest.mark.parametrize(
    ("runs", "batch", "platform", "devices", "limit", "size"),
    [
        (6, 64, "cpu", 1, None, 2),
        (7, 64, "cpu", 1, None, 2),
        (3, 64, "cpu", 1, None, 1),  # two slots would be a third more work
        (1, 64, "cpu", 1, None, 1),
        (6, 64, "cpu", 2, None, 2),
        (5, 16, "cpu", 1, None, 5),
        (5, 16, "cpu", 1, 2, 2),
        (10, 64, "gpu", 1, None, 10),
        (10, 64, "gpu", 1, 4, 4),
        (10, 64, "gpu", 4, None, 12),
    ],
)
def test_size_of_a_chunk(runs, batch, platform, devices, limit, size):
    assert chunks.chunk_size(runs, batch, platform, devices, limit) == size


def test_runs_do_not_depend_on_their_chunk(results, two_at_once):
    seeds, changes = (1, 2, 3, 4, 5, 6), CHANGES + [{}, STILL, {}]
    cohort = make_cohort(seeds=seeds, optimizer=changes)
    alike(cohort.train()[:3], results, atol=1e-5)
    assert [chunk.runs.tolist() for chunk in cohort.chunks.chunks] == [[0, 1], [2, 3], [4, 5]]


def test_grid_over_traced_hyperparameters_and_more_runs_compile_nothing(two_at_once):
    make_cohort(seeds=(1, 2)).train()
    train = make_cohort().chunks.programs
    before = [dict(program.executables) for program in train[1:]]
    changes = dict(dropout_rate=0.4, l2_penalty=0.01, decay_rate=0.5, learning_rate=0.01)
    # Six runs in three chunks: one stops early, one diverges and two are dropped.
    optimizer = [*({name: value} for name, value in changes.items()), STILL, DIVERGING]
    cohort = make_cohort(seeds=range(10, 16), optimizer=optimizer, training={"patience_samples": 140})
    assert cohort.chunks.programs is train
    results = cohort.train(dropped={2: [0, 1]})
    assert [result.progress.status for result in results[:2]] == ["dropped"] * 2
    assert results[4].progress.stopped and results[5].progress.diverged_at is not None
    assert [dict(program.executables) for program in train[1:]] == before
    # One program for each length of training and of scoring, and one for the start.
    assert cohort.chunks.lengths + cohort.evaluator.lengths + 1 <= 5


def test_chunks_merge_when_runs_have_ended_and_cost_nothing_then(two_at_once):
    arguments = dict(seeds=(1, 2, 3, 1), training={"patience_samples": 140})
    cohort = make_cohort(optimizer=[{}, STILL, STILL, {}], **arguments)
    results = cohort.train()
    assert [len(result.progress.curve) for result in results] == [4, 3, 3, 4]
    assert [chunk.runs.tolist() for chunk in cohort.chunks.chunks] == [[0, 3]]
    # Four slots for three epochs, when patience ends, then two slots.
    steps = cohort.chunks.batches.steps_per_epoch
    assert cohort.steps == {"lockstep": 4 * steps, "replica": (3 * 4 + 2) * steps}
    alike(make_cohort(**arguments).train()[::3], results[::3], atol=1e-5)
    alone = make_cohort(seeds=(1, 1), training=arguments["training"])
    alone.train()
    np.testing.assert_allclose(states(cohort).parameters, states(alone).parameters, atol=1e-5)


@pytest.mark.parametrize(("operations", "size"), [(0, 1), (1e7, 1), (1e15, 4)])
def test_accelerators_compute_fewer_slots_if_that_pays(results, monkeypatch, operations, size):
    monkeypatch.setattr(chunks.Chunks, "platform", "gpu")
    monkeypatch.setattr(chunks, "OPERATIONS_A_COMPILATION_ELSEWHERE", operations)
    cohort = make_cohort(seeds=(1, 2, 3, 4), optimizer=[*CHANGES, {}])
    alike(cohort.train(dropped={1: [0, 1, 3]})[2:3], results[2:], atol=1e-5)
    assert cohort.chunks.size == size


def test_buckets_that_share_a_program_give_the_same_results(results, monkeypatch):
    """Also dropout draws the same numbers in a longer row."""
    separate = make_cohort(optimizer=CHANGES)
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 1e15)
    shared = make_cohort(optimizer=CHANGES)
    assert len(separate.chunks.batches.shapes) == 2 and shared.chunks.lengths == 1
    alike(shared.train(), results, atol=1e-5)
    assert len(shared.chunks.chunks[0].batches) == 1  # an array of the batches of both lengths, so one program
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)
    apart = make_cohort(optimizer=CHANGES)
    assert apart.chunks.lengths == 2
    alike(apart.train(), results, atol=1e-5)


def test_out_of_memory_halves_the_chunks_and_training_continues(results, tmp_path):
    cohort, told = make_cohort(optimizer=CHANGES), []
    step, failing = cohort.chunks.step, iter([None] * 12 + ["RESOURCE_EXHAUSTED: out of memory"])

    def fails_once(*arguments):
        if message := next(failing, None):
            raise jax.errors.JaxRuntimeError(message)
        return step(*arguments)

    class Heard(Listener):
        def ran_out(self, part, at_once):
            told.append((part, at_once))

    cohort.chunks.step = fails_once
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    alike(cohort.train(checkpoints, Heard()), results, atol=1e-5)
    assert told == [("training", 1)] and cohort.chunks.size == 1
    (event,) = cohort.ran_out
    assert (event["part"], event["at_once"], event["then_at_once"]) == ("training", 3, 1)
    failing = iter(["RESOURCE_EXHAUSTED: out of memory"])
    with pytest.raises(MemoryError, match="one run at a time does not fit in training"):
        cohort.train()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes"), True),
        (jax.errors.JaxRuntimeError("CUDA_ERROR_OUT_OF_MEMORY"), True),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Shared memory size limit exceeded"), False),
        (jax.errors.JaxRuntimeError("INTERNAL: something else"), False),
        (ValueError("RESOURCE_EXHAUSTED"), False),
    ],
)
def test_only_device_memory_errors_count_as_out_of_memory(error, expected):
    assert is_out_of_memory(error) == expected


ESAN = {"name": "esan", "hidden_size": 8, "alignment_layers": 1}
CSRAN = {"name": "csran", "stacked_layers": 1, "hidden_size": 4, "highway_layers": 1, "factors": 2, "head_size": 8}
ONE_LENGTH = {"maximum_buckets": 1}  # all tests share two compiled steps per model
DIIN = {"name": "diin", "grid_length": 8, "dense_blocks": 1, "block_layers": 1, "growth_rate": 4, "first_scale": 1.0}
SIAMESE = {"name": "siamese", "hidden_size": 4, "head_size": 8}
TRANSFORMER = {"name": "transformer", "hidden_size": 8, "heads": 2, "encoder_layers": 1, "feed_forward_size": 8}
ALL = [ESAN, CSRAN, DIIN, SIAMESE, TRANSFORMER]


@pytest.mark.slow
@pytest.mark.parametrize("model", ALL, ids=lambda model: model["name"])
def test_a_run_does_not_depend_on_other_runs_of_its_cohort(model):
    def losses_of(seeds, *changes):
        cohort = make_cohort(seeds=seeds, optimizer=[{}, *changes], model=model, training=ONE_LENGTH)
        return cohort, steps_of(cohort, 8)[0]

    cohort, losses = losses_of((7, 1, 2), {"learning_rate": 1e-4}, {"dropout_rate": 0.5})
    other, others = losses_of((7, 5, 6), {"learning_rate": 1e-2}, {"dropout_rate": 0.0})
    np.testing.assert_array_equal(losses[:, 0], others[:, 0])
    assert losses.std(axis=1).max() > 1e-3  # the runs do differ
    assert np.abs(losses - others)[:, 1:].max(axis=0).min() > 1e-3
    if model is SIAMESE:  # a single run compiles a different program; testing one model with an LSTM is enough
        alone = make_cohort(seeds=(7,), model=model, training=ONE_LENGTH)
        np.testing.assert_allclose(losses[:, 0], steps_of(alone, 8)[0][:, 0], atol=1e-4)
    assert other.chunks.programs is cohort.chunks.programs


MIXED = {"mix_lengths": True, "maximum_buckets": 3, "batch_size": 4, "epochs": 2}


@pytest.fixture(scope="module")
def mixed_results():
    return make_cohort(training=MIXED).train()


def test_lengths_that_share_a_program_and_resumed_training_give_equal_results(mixed_results, tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with pytest.raises(Interruption):
        make_cohort(training=MIXED).train(checkpoints, InterruptAfter(23))  # in the second epoch
    same(make_cohort(training=MIXED).train(checkpoints), mixed_results)
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", 0)
    alike(make_cohort(training=MIXED).train(), mixed_results, rtol=1e-4, atol=1e-5)


def test_steps_of_all_lengths_are_compiled_in_the_first_epoch(monkeypatch):
    """Also those of lengths that the first epoch does not need."""
    monkeypatch.setitem(chunks.OPERATIONS_A_COMPILATION, "cpu", -1)  # no length shares a program
    # No other test has these shapes.
    replicas = make_cohort(seeds=range(7), training=MIXED | {"batch_size": 16}).chunks
    replicas.initialize()
    replicas.activate(np.ones(7, bool))
    epochs = [replicas.epoch(number) for number in range(2)]
    assert [set(epoch.sequence[:, 0]) for epoch in epochs] == [{1}, {0, 1}]
    train = replicas.programs.train
    before = len(train.executables)
    replicas.compile()
    assert len(train.ahead) == 2
    for number in range(2):
        epoch = replicas.epoch(number)
        for index in range(len(epoch.sequence)):
            replicas.step(epoch, index)
    assert not train.ahead and len(train.executables) == before + 2


def test_programs_of_the_next_cohort_are_compiled_while_this_one_trains():
    chunks.programs.cache_clear()
    following = {"model": MODEL | {"hidden_size": 4}, "training": TRAINING | ONE_LENGTH, "execution": EXECUTION}
    following |= {"data": make_data(), "seeds": (1, 2), "optimizer": [OPTIMIZER] * 2}
    cohort = make_cohort(seeds=(1, 2), training=ONE_LENGTH)
    cohort.compile_ahead(following)
    assert cohort.chunks.programs.train.ahead
    cohort.train()
    later = Cohort(**following)
    deadline = time.monotonic() + 20
    while not later.chunks.programs.train.ahead and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(later.chunks.programs.train.ahead) == 1
    later.train()
    train = later.chunks.programs.train
    chunks.programs.cache_clear()
    assert not train.ahead and len(train.executables) == 1
