"""If device memory is too small, fewer replicas are computed at a time, with the same results. Their number is
derived from the compiled programs, or from out-of-memory errors.
"""

import collections
import gc
import types
import weakref

import jax
import numpy as np
import pytest
import small_sweep
from small_cohort import InterruptAfter, Interruption, alike, make_cohort

from jaxmatch import devices
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.training import replicas_at_once, signature_programs
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.evaluation import Evaluator
from jaxmatch.training.programs import Program
from jaxmatch.training.progress import Listener

ARGUMENTS = {"seeds": (1, 2, 3, 4), "training": {"epochs": 3, "maximum_buckets": 1}}
STEPS = 15


class RecordingListener(Listener):
    """Records each number of replicas that fits, and each out-of-memory event."""

    def __init__(self):
        self.reduced, self.found = [], []

    def fitted(self, part, at_once):
        self.found.append((part, at_once))

    def ran_out(self, part, at_once):
        self.reduced.append((part, at_once))


@pytest.fixture
def memory_limit(monkeypatch):
    """Makes a program run out of memory if it computes more than `most` replicas at a time, except in its first
    `after` calls.
    """
    real, called = Program.__call__, collections.Counter()

    def begin(name, most, after=0):
        def call(self, static, *arrays):
            called[self.name] += 1
            if self.name != name or static[-1] <= most or called[name] <= after:
                return real(self, static, *arrays)
            for leaf in jax.tree.leaves([arrays[position] for position in self.donated]):
                leaf.delete()  # donated arrays are gone
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")

        monkeypatch.setattr(Program, "__call__", call)
        return called

    yield begin


def limited(limit):
    """A cohort that computes at most `limit` replicas at a time from the start."""
    cohort = make_cohort(**ARGUMENTS)
    cohort.lockstep.limit = limit
    return cohort


@pytest.fixture(scope="module")
def unlimited():
    return make_cohort(**ARGUMENTS).train()


def test_replicas_are_halved_before_pairs_that_never_fit_raise(monkeypatch):
    """The pairs need the same memory for any number of replicas."""
    real = Evaluator.batches

    def batches(self, split):
        if split == "test":
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")
        return real(self, split)

    monkeypatch.setattr(Evaluator, "batches", batches)
    cohort = make_cohort(**ARGUMENTS)
    with pytest.raises(replicas_at_once.TooLarge):
        cohort.train()
    assert [(event.at_once, event.then_at_once) for event in cohort.limits.ran_out] == [(4, 2), (2, 1)]


def test_finished_cohort_is_freed_without_garbage_collection():
    """Reference counting must suffice, because the next cohort measures the free memory immediately."""
    gc.collect()
    gc.disable()
    try:
        cohort = make_cohort(**ARGUMENTS)
        cohort.train()
        gone = weakref.ref(cohort.evaluator)
        del cohort
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("fit", [2, 1])
def test_out_of_memory_at_the_first_step_reduces_the_replicas(memory_limit, unlimited, fit):
    memory_limit("train_step", fit)
    cohort, listener = make_cohort(**ARGUMENTS), RecordingListener()
    results = cohort.train(listener=listener)
    assert [(event.part, event.after_steps, event.at_once, event.then_at_once) for event in cohort.limits.ran_out] == [
        ("training", 0, 4, 2),
        ("training", 0, 2, 1),
    ][: 3 - fit]
    assert listener.reduced == [("training", 2), ("training", 1)][: 3 - fit]
    assert cohort.progress.steps == {"lockstep": STEPS, "replica": 4 * STEPS}
    alike(results, limited(fit).train(), rtol=0)
    alike(results, unlimited, atol=1e-5)


def test_out_of_memory_without_a_checkpoint_restarts_training(memory_limit, unlimited):
    cohort = make_cohort(**ARGUMENTS)
    memory_limit("train_step", 2, after=7)
    alike(cohort.train(), unlimited, atol=1e-5)
    assert cohort.progress.steps == {"lockstep": STEPS, "replica": 4 * STEPS}


def test_out_of_memory_resumes_from_the_last_checkpoint(memory_limit, unlimited, tmp_path):
    cohort, checkpoints = make_cohort(**ARGUMENTS), Checkpoints(tmp_path / "ran out")
    called = memory_limit("train_step", 2, after=7)
    results = cohort.train(checkpoints)
    checkpoints.close()
    (event,) = cohort.limits.ran_out
    assert 0 < event.after_steps <= 7 and (event.at_once, event.then_at_once) == (4, 2)
    assert called["train_step"] <= STEPS + 2  # the step that failed, and at most one that was not waited for
    assert cohort.progress.steps["lockstep"] == STEPS
    alike(results, unlimited, atol=1e-5)


def test_interrupted_training_with_fewer_replicas_resumes_bit_for_bit(memory_limit, tmp_path):
    """This also holds if the memory is free again: a device of the same kind keeps the smaller number of replicas."""
    called = memory_limit("train_step", 2, after=3)
    results = []
    for kind, name in (("undisturbed", "one"), ("killed", "other")):
        called.clear()
        cohort, checkpoints = make_cohort(**ARGUMENTS), Checkpoints(tmp_path / name)
        if kind == "killed":
            with pytest.raises(Interruption):
                cohort.train(checkpoints, InterruptAfter(9))
            assert len(cohort.limits.ran_out) == 1
            called["train_step"] = -100
            events, cohort = cohort.limits.ran_out, make_cohort(**ARGUMENTS)
        results.append(cohort.train(checkpoints))
        assert cohort.lockstep.limit == 2 and len(cohort.limits.ran_out) == 1
        checkpoints.close()
    assert cohort.limits.ran_out == events
    alike(*results, rtol=0)


def test_replica_limit_does_not_apply_to_another_device_kind(memory_limit, tmp_path):
    called = memory_limit("train_step", 2)
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(Interruption):
        make_cohort(**ARGUMENTS).train(checkpoints, InterruptAfter(9))
    called["train_step"] = -100
    cohort = make_cohort(**ARGUMENTS)
    cohort.limits.device_kind = "another kind"
    cohort.train(checkpoints)
    checkpoints.close()
    assert cohort.lockstep.limit is None and len(cohort.limits.ran_out) == 1


def test_out_of_memory_in_evaluation_repeats_only_the_evaluation(memory_limit, unlimited):
    called = memory_limit("evaluate", 1)
    cohort, listener = make_cohort(**ARGUMENTS), RecordingListener()
    results = cohort.train(listener=listener)
    assert called["train_step"] == STEPS and cohort.lockstep.limit is None
    assert listener.reduced == [("evaluation", 2), ("evaluation", 1)]
    assert {event.after_steps for event in cohort.limits.ran_out} == {STEPS // 3}
    alike(results, unlimited, rtol=0)
    for one, other in zip(results, unlimited, strict=True):
        np.testing.assert_allclose(one.test["loss"], other.test["loss"], atol=1e-6)


@pytest.mark.parametrize("name", ["train_step", "evaluate"])
def test_training_fails_if_one_replica_does_not_fit(memory_limit, name):
    memory_limit(name, 0)
    with pytest.raises(replicas_at_once.TooLarge, match="one replica at a time does not fit in"):
        make_cohort(**ARGUMENTS).train()


def test_evaluation_pairs_that_never_fit_are_an_error(monkeypatch):
    def full(self, split):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")

    monkeypatch.setattr(Evaluator, "batches", full)
    with pytest.raises(replicas_at_once.TooLarge, match="one replica at a time does not fit in evaluation"):
        make_cohort(**ARGUMENTS).train()


def test_other_errors_are_not_treated_as_out_of_memory(monkeypatch):
    def call(*arguments):
        raise jax.errors.JaxRuntimeError("INTERNAL: no")

    monkeypatch.setattr(Program, "__call__", call)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        make_cohort(**ARGUMENTS).train()
    assert not devices.is_out_of_memory(ValueError("RESOURCE_EXHAUSTED"))  # as in writing checkpoints


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.", True),
        ("RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 2G", True),
        ("INTERNAL: Failed to load CUDA module: CUDA_ERROR_OUT_OF_MEMORY: out of memory", True),
        ("INTERNAL: cublasCreate failed: CUBLAS_STATUS_ALLOC_FAILED", True),
        ("RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 110592, available: 101376", False),
        ("RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack", False),
    ],
)
def test_only_device_memory_errors_count_as_out_of_memory(message, expected):
    assert devices.is_out_of_memory(jax.errors.JaxRuntimeError(message)) is expected


@pytest.fixture
def measured_memory(monkeypatch):
    """Makes every program take 100 bytes per replica, and devices report `free` bytes."""

    def begin(free):
        signature_programs.programs.cache_clear()
        programs = []
        real = Program.compiled

        def compiled(self, static, arrays):
            programs.append((self.name, static[-1]))
            real(self, static, arrays)
            return types.SimpleNamespace(taken=100 * static[-1])

        monkeypatch.setattr(replicas_at_once, "free_bytes", lambda devices: free)
        monkeypatch.setattr(replicas_at_once, "bytes_beside_arguments", lambda program: program.taken)
        monkeypatch.setattr(Program, "compiled", compiled)
        monkeypatch.setattr(Program, "__call__", lambda self, static, *arrays: real(self, static, arrays)(*arrays))
        return programs

    yield begin


def test_replicas_at_a_time_are_derived_from_compiled_programs(measured_memory, unlimited):
    requested = measured_memory(250)
    cohort, listener = make_cohort(**ARGUMENTS), RecordingListener()
    results = cohort.train(listener=listener)
    assert requested == [
        ("train_step", 4),
        ("train_step", 2),
        ("evaluate", 4),
        ("evaluate", 2),
        ("evaluate", 2),
    ]  # dev, then test
    assert listener.found == [("training", 2), ("evaluation", 2)] and not listener.reduced and not cohort.limits.ran_out
    train, evaluate = cohort.lockstep.programs.train, cohort.lockstep.programs.evaluate
    assert (train.compilations, evaluate.compilations) == (2, 2)  # the programs that were measured run
    alike(results, limited(2).train(), rtol=0)
    alike(results, unlimited, atol=1e-5)


def test_all_replicas_are_computed_at_once_if_they_fit(measured_memory, unlimited):
    requested = measured_memory(400)
    cohort, listener = make_cohort(**ARGUMENTS), RecordingListener()
    results = cohort.train(listener=listener)
    assert requested == [("train_step", 4), ("evaluate", 4), ("evaluate", 4)]
    assert (cohort.lockstep.limit, cohort.evaluator.limit, listener.found) == (None, None, [])
    alike(results, unlimited, rtol=0)


@pytest.mark.slow
def test_out_of_memory_is_recorded_and_printed_in_one_line(memory_limit, small_files, tmp_path):
    options = {"seeds": 2, "grid_overrides": {"optimizer.learning_rate": "0.01"}}
    table, _ = small_sweep.launched(small_files, tmp_path / "one", **options)
    memory_limit("train_step", 1)
    other, watcher = small_sweep.launched(small_files, tmp_path / "other", **options)
    assert watcher.text.count("out of memory in training; continuing with 1 run at once") == 1
    event = {
        "part": "training",
        "after_steps": 0,
        "device": jax.devices()[0].device_kind,
        "at_once": 2,
        "then_at_once": 1,
    }
    before, after = small_sweep.records(tmp_path / "one"), small_sweep.records(tmp_path / "other")
    assert [record.get("ran_out") for record in before.values()] == [None, None]
    assert [record.pop("ran_out") for record in after.values()] == [[event], [event]]
    assert [list(record) for record in before.values()] == [list(record) for record in after.values()]
    assert table == other
    memory_limit("train_step", 0)
    with pytest.raises(FailedCohorts, match="2 runs at once do not fit in device memory"):
        small_sweep.launched(small_files, tmp_path / "third", **options)
