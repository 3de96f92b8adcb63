"""Where a device's memory is too small, fewer replicas are computed at a time, and nothing is lost. Their number comes
from the compiled programs, or from running out of memory.
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

from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.training import room, signature_programs
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.evaluation import Evaluator
from jaxmatch.training.programs import Program
from jaxmatch.training.progress import Listener

ARGUMENTS = {"seeds": (1, 2, 3, 4), "training": {"epochs": 3, "maximum_buckets": 1}}
STEPS = 15


class Heard(Listener):
    """Notes each number of replicas that fits, and each time that memory ran out."""

    def __init__(self):
        self.told, self.found = [], []

    def fitted(self, part, at_once):
        self.found.append((part, at_once))

    def ran_out(self, part, at_once):
        self.told.append((part, at_once))


@pytest.fixture
def short(monkeypatch):
    """Makes memory run out where a program computes more than `most` replicas side by side, but not in its first
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
    """A cohort that knows from the start how many replicas fit."""
    cohort = make_cohort(**ARGUMENTS)
    cohort.lockstep.limit = limit
    return cohort


@pytest.fixture(scope="module")
def side_by_side():
    return make_cohort(**ARGUMENTS).train()


def test_pairs_that_never_fit_on_the_device_end_the_training(monkeypatch):
    """The pairs need as much memory for fewer replicas."""
    real = Evaluator.batches

    def batches(self, split):
        if split == "test":
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")
        return real(self, split)

    monkeypatch.setattr(Evaluator, "batches", batches)
    cohort = make_cohort(**ARGUMENTS)
    with pytest.raises(room.TooLarge):
        cohort.train()
    assert [(event.at_once, event.then_at_once) for event in cohort.limits.ran_out] == [(4, 2), (2, 1)]


def test_a_cohort_leaves_the_devices_when_it_ends():
    """No garbage collection is needed: the next cohort measures the free memory at once."""
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
def test_at_the_first_step_fewer_are_computed_at_once(short, side_by_side, fit):
    short("train_step", fit)
    cohort, heard = make_cohort(**ARGUMENTS), Heard()
    results = cohort.train(listener=heard)
    assert [(event.part, event.after_steps, event.at_once, event.then_at_once) for event in cohort.limits.ran_out] == [
        ("training", 0, 4, 2),
        ("training", 0, 2, 1),
    ][: 3 - fit]
    assert heard.told == [("training", 2), ("training", 1)][: 3 - fit]
    assert cohort.progress.steps == {"lockstep": STEPS, "replica": 4 * STEPS}
    alike(results, limited(fit).train(), rtol=0)
    alike(results, side_by_side, atol=1e-5)


def test_without_a_checkpoint_training_begins_again(short, side_by_side):
    cohort = make_cohort(**ARGUMENTS)
    short("train_step", 2, after=7)
    alike(cohort.train(), side_by_side, atol=1e-5)
    assert cohort.progress.steps == {"lockstep": STEPS, "replica": 4 * STEPS}


def test_in_the_middle_training_goes_on_from_the_last_checkpoint(short, side_by_side, tmp_path):
    cohort, checkpoints = make_cohort(**ARGUMENTS), Checkpoints(tmp_path / "ran out")
    called = short("train_step", 2, after=7)
    results = cohort.train(checkpoints)
    checkpoints.close()
    (event,) = cohort.limits.ran_out
    assert 0 < event.after_steps <= 7 and (event.at_once, event.then_at_once) == (4, 2)
    assert called["train_step"] <= STEPS + 2  # the step that failed, and at most one that was not waited for
    assert cohort.progress.steps["lockstep"] == STEPS
    alike(results, side_by_side, atol=1e-5)


def test_what_went_on_with_fewer_is_resumed_bit_for_bit(short, tmp_path):
    """This also holds if memory is free again: a device of the same kind keeps the smaller number."""
    called = short("train_step", 2, after=3)
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


def test_a_device_of_another_kind_is_not_held_to_it(short, tmp_path):
    called = short("train_step", 2)
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(Interruption):
        make_cohort(**ARGUMENTS).train(checkpoints, InterruptAfter(9))
    called["train_step"] = -100
    cohort = make_cohort(**ARGUMENTS)
    cohort.limits.device_kind = "another kind"
    cohort.train(checkpoints)
    checkpoints.close()
    assert cohort.lockstep.limit is None and len(cohort.limits.ran_out) == 1


def test_an_evaluation_is_made_again_with_fewer_and_no_step_is(short, side_by_side):
    called = short("evaluate", 1)
    cohort, heard = make_cohort(**ARGUMENTS), Heard()
    results = cohort.train(listener=heard)
    assert called["train_step"] == STEPS and cohort.lockstep.limit is None
    assert heard.told == [("evaluation", 2), ("evaluation", 1)]
    assert {event.after_steps for event in cohort.limits.ran_out} == {STEPS // 3}
    alike(results, side_by_side, rtol=0)
    for one, other in zip(results, side_by_side, strict=True):
        np.testing.assert_allclose(one.test["loss"], other.test["loss"], atol=1e-6)


@pytest.mark.parametrize("name", ["train_step", "evaluate"])
def test_only_where_not_even_one_fits_it_fails(short, name):
    short(name, 0)
    with pytest.raises(room.TooLarge, match="one replica at a time does not fit in"):
        make_cohort(**ARGUMENTS).train()


def test_pairs_that_do_not_fit_are_not_answered_by_fewer(monkeypatch):
    def full(self, split):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")

    monkeypatch.setattr(Evaluator, "batches", full)
    with pytest.raises(room.TooLarge, match="one replica at a time does not fit in evaluation"):
        make_cohort(**ARGUMENTS).train()


def test_another_error_is_none_of_memory(monkeypatch):
    def call(*arguments):
        raise jax.errors.JaxRuntimeError("INTERNAL: no")

    monkeypatch.setattr(Program, "__call__", call)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        make_cohort(**ARGUMENTS).train()
    assert not room.ran_out(ValueError("RESOURCE_EXHAUSTED"))  # an error of another kind, as of writing checkpoints


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.", True),
        ("RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 2G", True),
        ("INTERNAL: Failed to load CUDA module: CUDA_ERROR_OUT_OF_MEMORY: out of memory", True),
        ("INTERNAL: cublasCreate failed: CUBLAS_STATUS_ALLOC_FAILED", True),
        ("RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 110592, available: 101376", False),
        ("RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack", False),
    ],
)
def test_fewer_replicas_help_where_the_memory_of_the_device_ran_out(said, helps):
    assert room.ran_out(jax.errors.JaxRuntimeError(said)) is helps


@pytest.fixture
def told(monkeypatch):
    """Makes every program take 100 bytes for each replica side by side, and devices report `free` bytes."""

    def begin(free):
        signature_programs.programs.cache_clear()
        programs = []
        real = Program.compiled

        def compiled(self, static, arrays):
            programs.append((self.name, static[-1]))
            real(self, static, arrays)
            return types.SimpleNamespace(taken=100 * static[-1])

        monkeypatch.setattr(room, "free_bytes", lambda devices: free)
        monkeypatch.setattr(room, "bytes_beside_arguments", lambda program: program.taken)
        monkeypatch.setattr(Program, "compiled", compiled)
        monkeypatch.setattr(Program, "__call__", lambda self, static, *arrays: real(self, static, arrays)(*arrays))
        return programs

    yield begin


def test_how_many_are_computed_at_once_follows_from_the_compiled_programs(told, side_by_side):
    asked = told(250)
    cohort, heard = make_cohort(**ARGUMENTS), Heard()
    results = cohort.train(listener=heard)
    assert asked == [
        ("train_step", 4),
        ("train_step", 2),
        ("evaluate", 4),
        ("evaluate", 2),
        ("evaluate", 2),
    ]  # dev, then test
    assert heard.found == [("training", 2), ("evaluation", 2)] and not heard.told and not cohort.limits.ran_out
    train, evaluate = cohort.lockstep.programs.train, cohort.lockstep.programs.evaluate
    assert (train.compilations, evaluate.compilations) == (2, 2)  # the programs that were measured run
    alike(results, limited(2).train(), rtol=0)
    alike(results, side_by_side, atol=1e-5)


def test_where_all_fit_all_are_computed_at_once(told, side_by_side):
    asked = told(400)
    cohort, heard = make_cohort(**ARGUMENTS), Heard()
    results = cohort.train(listener=heard)
    assert asked == [("train_step", 4), ("evaluate", 4), ("evaluate", 4)]
    assert (cohort.lockstep.limit, cohort.evaluator.limit, heard.found) == (None, None, [])
    alike(results, side_by_side, rtol=0)


@pytest.mark.slow
def test_the_record_and_one_line_say_it(short, small_files, tmp_path):
    what = {"seeds": 2, "grid_overrides": {"optimizer.learning_rate": "0.01"}}
    table, _ = small_sweep.launched(small_files, tmp_path / "one", **what)
    short("train_step", 1)
    other, watcher = small_sweep.launched(small_files, tmp_path / "other", **what)
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
    short("train_step", 0)
    with pytest.raises(FailedCohorts, match="2 runs at once do not fit in device memory"):
        small_sweep.launched(small_files, tmp_path / "third", **what)
