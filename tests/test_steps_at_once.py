"""Several steps in one dispatch give the same results as single steps, bit for bit."""

import os

import jax
import numpy as np
import pytest
from small_cohort import InterruptAfter, Interruption, make_cohort, same

from jaxmatch.training import cohort as cohort_module
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.layouts import in_rows
from jaxmatch.training.programs import Program
from jaxmatch.training.progress import Listener

# One run learns, one diverges, and one learns nothing: patience stops it, and two of three slots are left.
RUNS = [{}, {"learning_rate": 1e30, "gradient_clip": 0.0}, {"learning_rate": 0.0, "learning_rate_floor": 0.0}]
TRAINING = {"evaluate_every_samples": 45, "patience_samples": 90}
OPTIMISED = "optimization_level=0" not in os.environ.get("XLA_FLAGS", "")


@pytest.fixture(autouse=True)
def rare_clock_checks(monkeypatch):
    """Makes training check the clock only after the first step of an epoch, after scoring dev, and at its end."""
    monkeypatch.setattr(cohort_module, "SECONDS_BETWEEN_POLLS", 1e6)


def cohort(steps_at_once):
    return make_cohort(seeds=(7, 8, 9), optimizer=RUNS, training=TRAINING, execution={"steps_at_once": steps_at_once})


@pytest.fixture
def dispatches(monkeypatch):
    """The names of the training programs that were called, in their order."""
    called, real = [], Program.__call__

    def counted(self, *arguments):
        if self.name.startswith("train"):
            called.append(self.name)
        return real(self, *arguments)

    monkeypatch.setattr(Program, "__call__", counted)
    return called


@pytest.fixture(scope="module")
def single_steps():
    """A cohort that dispatches single steps, and its results.

    With XLA's optimizations (test_optimised.py), it has the program of single steps, the default. Without them, the
    states of the two programs differ (below), so it has the program of many steps, and checks the clock after each.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cohort_module, "SECONDS_BETWEEN_POLLS", 0.0)
        trained = cohort(1 if OPTIMISED else 64)
        return trained, trained.train()


def test_states_after_several_steps_equal_those_after_single_steps(dispatches):
    one, many = cohort(1).lockstep, cohort(16).lockstep
    assert (one.steps_at_once, many.steps_at_once) == (1, 16)
    single, several = one.initial(), many.initial()
    epoch, same_epoch = one.epoch(0), many.epoch(0)
    steps, lengths = len(epoch.sequence), epoch.sequence[:, 0]
    assert (
        len(set(lengths.tolist())) == 2 and np.count_nonzero(np.diff(lengths)) >= 2
    )  # lengths change from step to step
    for index in range(steps):
        single = one.step(single, epoch, index)
    several = many.step(several, same_epoch, 0, 1)
    several = many.step(several, same_epoch, 1, steps - 2)
    several = many.step(several, same_epoch, steps - 1, 1)
    assert dispatches == ["train_step"] * steps + ["train_steps"] * 3
    assert many.programs.train_many.compilations == 1  # for any number of steps
    assert (np.asarray(several.diverged_at) >= 0).tolist() == [False, True, False]
    # Without optimizations, the compiler contracts a product and a sum of Adam differently in the two programs. With
    # optimizations (test_optimised.py), the states are equal.
    for left, right in zip(jax.tree.leaves(single), jax.tree.leaves(several), strict=True):
        np.testing.assert_allclose(left, right, rtol=0 if OPTIMISED else 1e-5, atol=0 if OPTIMISED else 1e-6)


@pytest.mark.parametrize("steps_at_once", [2, 64])
def test_training_gives_the_same_results_in_fewer_dispatches(single_steps, dispatches, steps_at_once):
    trained, expected = single_steps
    progress = [result.progress for result in expected]
    assert [each.stopped for each in progress] == [False, False, True] and progress[1].diverged_at is not None
    together = cohort(steps_at_once)
    same(together.train(), expected)
    assert together.progress.steps == trained.progress.steps and len(together.lockstep.slots) == 2
    # A dispatch ends at the next clock check, evaluation or end of an epoch, or after the set number of steps.
    wanted = 0
    for number in range(4):
        samples = together.lockstep.epoch(number).samples
        stops = np.flatnonzero(samples // 45 > np.append(number * 70, samples[:-1]) // 45) + 1
        rows = np.diff(np.unique([0, 1, *stops, len(samples)]))
        wanted += sum(-(-row // steps_at_once) for row in rows.tolist())
    assert len(dispatches) == wanted < together.progress.steps["lockstep"]


@pytest.mark.parametrize("steps", [9, 16])
def test_training_interrupted_within_an_epoch_resumes_bit_for_bit(single_steps, tmp_path, steps):
    class ResumeListener(Listener):
        def resumed(self, done, total):
            self.done = done

    checkpoints, listener = Checkpoints(tmp_path / "checkpoints"), ResumeListener()
    with pytest.raises(Interruption):
        cohort(64).train(checkpoints, InterruptAfter(steps))
    resumed = cohort(64)
    same(resumed.train(checkpoints, listener), single_steps[1])
    checkpoints.close()
    assert 0 < listener.done < steps and listener.done % resumed.lockstep.batches.steps_per_epoch  # within an epoch
    assert resumed.progress.steps == single_steps[0].progress.steps


@pytest.mark.parametrize("steps_at_once", [1, 2])
def test_steps_and_evaluation_make_no_implicit_device_transfers(steps_at_once):
    """Every dispatch would wait for arrays that are not placed on the devices beforehand."""
    replicas, evaluator = (made := cohort(steps_at_once)).lockstep, made.evaluator
    epoch, state = replicas.epoch(0), replicas.initial()
    state = replicas.step(state, epoch, 0, steps_at_once)  # places what all steps share
    evaluator.outputs("dev", state.parameters, 3)
    with jax.transfer_guard("disallow"):
        state = replicas.step(state, epoch, steps_at_once, steps_at_once)
        evaluator.outputs("dev", state.parameters, 3)


def test_matrices_are_kept_in_rows_on_a_tpu_alone():
    tree = {"matrix": np.ones((10, 40), np.float32), "vector": np.ones(10, np.float32)}
    assert in_rows("gpu", tree) is tree
    text = jax.jit(lambda tree: in_rows("tpu", tree)).lower(tree).as_text()
    assert text.count("LayoutConstraint") == 1 and "dense<[1, 0]>" in text
