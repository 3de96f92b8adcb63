"""The invariants of lockstep training."""

import jax
import numpy as np
import pytest
from small_cohort import InterruptAfter, Interruption, alike, leaves, lockstep, make_cohort, make_data, same

from jaxmatch.training import cohort as cohort_module
from jaxmatch.training import programs, restacking, signature_programs
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.progress import Listener


@pytest.fixture(scope="module")
def results():
    """Three runs that differ in seed, learning rate and dropout rate, trained to the end."""
    return make_cohort(optimizer=[{}, {"learning_rate": 1e-3}, {"dropout_rate": 0.0}]).train()


def test_losses_of_a_run_alone_equal_its_losses_in_a_cohort():
    together = make_cohort(seeds=(7, 1, 2), optimizer=[{}, {"learning_rate": 1e-4}, {"dropout_rate": 0.5}])
    alone = make_cohort(seeds=(7,))
    rows_together, rows_alone = together.lockstep.epoch(0).batches, alone.lockstep.epoch(0).batches
    for bucket in rows_alone:
        np.testing.assert_array_equal(rows_together[bucket][0][0], rows_alone[bucket][0][0])
    losses_together, _ = lockstep(together, 50)
    losses_alone, _ = lockstep(alone, 50)
    np.testing.assert_allclose(losses_together[:, 0], losses_alone[:, 0], atol=1e-5)
    assert losses_together.std(axis=1).max() > 1e-3  # the runs do differ


def test_losses_do_not_depend_on_the_other_runs():
    one, _ = lockstep(make_cohort(seeds=(7, 1, 2)), 12)
    other, _ = lockstep(make_cohort(seeds=(7, 5, 6), optimizer=[{}, {"learning_rate": 0.1}, {"dropout_rate": 0.6}]), 12)
    np.testing.assert_array_equal(one[:, 0], other[:, 0])
    assert np.any(one[:, 1] != other[:, 1])


def test_diverged_run_is_marked_and_does_not_affect_other_runs(results):
    changes = [{}, {"learning_rate": 1e30, "gradient_clip": 0.0}, {"dropout_rate": 0.0}]
    with jax.debug_nans(True), jax.debug_infs(True):  # as JAX_DEBUG_NANS and JAX_DEBUG_INFS
        with_diverged = make_cohort(optimizer=changes).train()
    assert with_diverged[1].progress.diverged_at is not None
    assert all(np.isfinite(leaf).all() for leaf in leaves(with_diverged[1]))
    assert with_diverged[0].progress.diverged_at is with_diverged[2].progress.diverged_at is None
    same(with_diverged[::2], results[::2])


def test_diverging_step_leaves_parameters_finite():
    _, state = lockstep(make_cohort(optimizer=[{}, {"learning_rate": 1e30, "gradient_clip": 0.0}, {}]), 6)
    assert (np.asarray(state.diverged_at) >= 0).tolist() == [False, True, False]
    assert np.isfinite(np.asarray(state.parameters)).all()


def test_grid_over_traced_hyperparameters_does_not_recompile(results):
    train = make_cohort().lockstep.programs.train
    before = dict(train.executables)
    changed = dict(
        learning_rate=0.01,
        learning_rate_floor=0.001,
        warmup_samples=50,
        decay_rate=0.5,
        decay_samples=20,
        dropout_rate=0.4,
        weight_decay=0.01,
        gradient_clip=0.1,
    )
    cohort = make_cohort(seeds=(10, 11, 12), optimizer=[{name: value} for name, value in list(changed.items())[:3]])
    assert cohort.lockstep.programs.train is train
    cohort.train()
    make_cohort(seeds=(10, 11, 12), optimizer=[{name: value} for name, value in list(changed.items())[-3:]]).train()
    assert train.executables == before
    # One program for each length. Other tests may have compiled programs for other lengths.
    three = {key[0] for key in before if any(shape[:1] == (3,) for shape, _ in key[1])}
    lengths = [shape.length for shape, _ in three if shape.length in cohort.lockstep.buckets]
    assert sorted(lengths) == sorted(cohort.lockstep.buckets)


def test_traced_hyperparameters_change_the_losses():
    names = ("warmup_samples", "weight_decay", "gradient_clip", "decay_rate", "learning_rate_floor", "decay_samples")
    values = (200, 0.1, 0.01, 0.3, 2.9e-3, 10)
    plain, _ = lockstep(make_cohort(seeds=(1, 1, 1)), 20)
    for start in (0, 3):
        changes = [
            {name: value} for name, value in zip(names[start : start + 3], values[start : start + 3], strict=True)
        ]
        changed, _ = lockstep(make_cohort(seeds=(1, 1, 1), optimizer=changes), 20)
        for replica, name in enumerate(names[start : start + 3]):
            assert np.any(changed[:, replica] != plain[:, replica]), name


def test_the_step_is_free_of_convolutions_and_host_transfers():
    cohort = make_cohort()
    lockstep(cohort, 10)
    for compiled in cohort.lockstep.programs.train.executables.values():
        text = compiled.as_text()
        assert "dot(" in text  # the text does contain the program
        for word in (" convolution(", "infeed", "outfeed", "send(", "recv(", "callback", "all-reduce", "all-gather"):
            assert word not in text, word


def test_number_of_buckets_does_not_change_outputs(results):
    """The same parameters give the same outputs when dev is padded to other lengths."""
    one, three = make_cohort(training={"maximum_buckets": 1}), make_cohort(training={"maximum_buckets": 3})
    parameters = one.lockstep.initial().parameters
    np.testing.assert_allclose(
        one.evaluator.outputs("dev", parameters, 2), three.evaluator.outputs("dev", parameters, 2), atol=1e-5
    )
    widths = [{batch.sentences.shape[1] for batch in cohort.evaluator.batches("dev")} for cohort in (one, three)]
    assert [len(each) for each in widths] == [1, 3]


def test_training_reduces_the_loss_and_selects_on_dev(results):
    for result in results:
        curve = result.progress.curve
        assert [entry["samples"] for entry in curve] == [70, 140, 210, 280]
        assert curve[-1]["train_loss"] < curve[0]["train_loss"]
        best = max(entry["dev"]["accuracy"] for entry in curve)
        assert result.progress.best["accuracy"] == best
        assert result.progress.best_at == next(e["samples"] for e in curve if e["dev"]["accuracy"] == best)
        assert 0 <= result.test["accuracy"] <= 1


@pytest.mark.parametrize("steps", [1, 7])
def test_interrupted_training_resumes_with_equal_results(results, tmp_path, steps, monkeypatch):
    monkeypatch.setattr(cohort_module, "SECONDS_BETWEEN_POLLS", 0.0)  # check after every step
    changes = [{}, {"learning_rate": 1e-3}, {"dropout_rate": 0.0}]
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for interruption in (steps, steps + 2):
        with pytest.raises(Interruption):
            make_cohort(optimizer=changes).train(checkpoints, InterruptAfter(interruption))
    again = make_cohort(optimizer=changes).train(checkpoints)
    checkpoints.close()
    same(again, results)


def test_patience_stops_one_run_and_the_others_continue():
    """One of two runs learns nothing and stops. The cohort is re-stacked, and nothing else changes."""
    changes = [{}, {"learning_rate": 0.0, "learning_rate_floor": 0.0}]
    arguments = dict(seeds=(1, 2), optimizer=changes, training={"patience_samples": 140})
    restacked_cohort = make_cohort(**arguments)
    restacked = restacked_cohort.train()
    kept = make_cohort(**arguments, execution={"restack": False}).train()
    assert len(restacked_cohort.lockstep.slots) == 1
    alike(restacked, kept, atol=1e-4)
    assert [one.progress.stopped for one in restacked] == [one.progress.stopped for one in kept]
    assert restacked[1].progress.stopped and restacked[1].progress.best_at == 70
    assert len(restacked[1].progress.curve) == 3
    assert len(restacked[0].progress.curve) == 4


def test_cohort_is_not_restacked_if_restacking_does_not_pay(monkeypatch):
    calls = []
    monkeypatch.setattr(restacking, "pays", lambda *arguments: calls.append(arguments))
    changes = [{}, {"learning_rate": 0.0, "learning_rate_floor": 0.0}]
    cohort = make_cohort(seeds=(1, 2), optimizer=changes, training={"patience_samples": 140, "epochs": 4})
    results = cohort.train()
    assert results[1].progress.stopped and len(cohort.lockstep.slots) == 2
    programs = len(cohort.lockstep.batches.batch_rows) + cohort.evaluator.lengths
    assert calls == [("cpu", 70, 1, programs)]  # after three of four epochs of 70 pairs


@pytest.mark.parametrize(("kept", "size"), [(3, 4), (2, 2), (1, 1), (5, 8)])
def test_slots_are_halved_while_the_kept_runs_fit(kept, size):
    assert make_cohort(seeds=range(8)).lockstep.halved(kept) == size


def test_restacking_pays_on_a_cpu_and_for_long_remaining_training_on_a_gpu():
    wikiqa, snli = 13 * 20_360, 15 * 549_367  # the pairs of a run in 13 and in 15 epochs
    assert restacking.pays("cpu", 70, 1, 14)
    assert not restacking.pays("gpu", wikiqa, 5, 14)
    assert restacking.pays("gpu", snli, 5, 14)


def test_concurrent_and_sequential_compilation_train_equally(monkeypatch):
    class RecordingListener(Listener):
        def compiling(self, part, number, lengths):
            events.append(f"{part} {number} of {lengths}")

        def compiled(self, part, seconds):
            events.append(f"{part} compiled")

    one_by_one = make_cohort(seeds=(1, 2)).train()
    signature_programs.programs.cache_clear()
    monkeypatch.setattr(programs, "cores", lambda: 4)
    cohort, events = make_cohort(seeds=(1, 2)), []
    for part in (cohort.lockstep.programs.train, cohort.lockstep.programs.evaluate):
        part.compiles_in_parallel = True
    same(cohort.train(listener=RecordingListener()), one_by_one)
    signature_programs.programs.cache_clear()
    both = "{0} 1 of 2", "{0} compiled", "{0} 2 of 2", "{0} compiled"
    assert events == [line.format(part) for part in ("training", "evaluation") for line in both]


def test_evaluation_interval_is_in_samples():
    cohort = make_cohort(training={"evaluate_every_samples": 30, "epochs": 2})
    samples = [entry["samples"] for entry in cohort.train()[0].progress.curve]
    assert samples[-1] == 140
    assert len(samples) in (4, 5)  # every 30 of 140 samples, and the end
    assert all(later - earlier <= 30 + 16 for earlier, later in zip([0, *samples], samples))


def test_best_on_test_scores_are_recorded_separately():
    results = make_cohort(training={"best_on_test": True}).train()
    for result in results:
        best = result.progress.best_on_test
        assert best["scores"]["accuracy"] >= result.test["accuracy"]
        assert best["at_samples"] in [entry["samples"] for entry in result.progress.curve]


@pytest.mark.parametrize(
    ("task", "selection", "scores"),
    [
        ("regression", "pearson", {"pearson", "spearman", "mse"}),
        ("ranking", "map", {"map", "mrr", "accuracy"}),
    ],
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


@pytest.mark.parametrize("until", [1, 3])
def test_paused_training_resumes_with_equal_results(results, tmp_path, until):
    changes = [{}, {"learning_rate": 1e-3}, {"dropout_rate": 0.0}]
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    paused = make_cohort(optimizer=changes)
    assert paused.train(checkpoints, until=until) is None
    assert [len(progress.curve) for progress in paused.progress.runs] == [until] * 3
    again = make_cohort(optimizer=changes)
    assert again.train(checkpoints, until=until) is None  # this epoch is already reached
    assert again.progress.runs == paused.progress.runs
    resumed = make_cohort(optimizer=changes)
    same(resumed.train(checkpoints), results)
    steps = 4 * resumed.lockstep.batches.steps_per_epoch
    assert resumed.progress.steps == {"lockstep": steps, "replica": 3 * steps}
    checkpoints.close()


def test_dropped_run_stops_and_does_not_affect_other_runs(results, tmp_path):
    arguments = dict(optimizer=[{}, {"learning_rate": 1e-3}, {"dropout_rate": 0.0}], execution={"restack": False})
    ended = make_cohort(**arguments).train(dropped={2: [1]})
    same(ended[::2], results[::2])
    dropped = ended[1]
    assert (dropped.progress.status, dropped.progress.dropped_at, dropped.test) == ("dropped", 140, None)
    assert dropped.progress.curve == results[1].progress.curve[:2]
    # A pause in between does not change the results, even if only the decision to drop a run is left to apply.
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert make_cohort(**arguments).train(checkpoints, until=2) is None
    same(make_cohort(**arguments).train(checkpoints, dropped={2: [1]}), ended)
    checkpoints.close()


def test_cohort_shrinks_directly_to_the_runs_kept_at_a_rung(results):
    cohort = make_cohort(optimizer=[{}, {"learning_rate": 1e-3}, {"dropout_rate": 0.0}])
    shrunk = cohort.train(dropped={1: [0, 2]})
    assert [result.progress.dropped_at for result in shrunk] == [70, None, 70]
    assert cohort.lockstep.slots.tolist() == [1]
    steps = cohort.lockstep.batches.steps_per_epoch
    # Three slots in the first epoch, then directly one slot instead of two.
    assert cohort.progress.steps == {"lockstep": 4 * steps, "replica": (3 + 3 * 1) * steps}
    alike(shrunk[1:2], results[1:2], atol=1e-4)


def test_training_ends_if_all_runs_are_dropped():
    ended = make_cohort()
    assert [result.progress.status for result in ended.train(dropped={1: [0, 1, 2]})] == ["dropped"] * 3
    assert ended.progress.steps["lockstep"] == ended.lockstep.batches.steps_per_epoch


def test_stopped_and_diverged_runs_keep_their_status_at_a_rung():
    """At a rung, one run has stopped and one has diverged. A pause detects divergence even before an evaluation."""
    changes = [{"learning_rate": 0.0, "learning_rate_floor": 0.0}, {"learning_rate": 1e30, "gradient_clip": 0.0}, {}]
    training = {"patience_samples": 70, "evaluate_every_samples": 60, "epochs": 4}
    cohort = make_cohort(optimizer=changes, training=training)
    cohort.train(dropped={3: [0, 1, 2]})
    assert [progress.status for progress in cohort.progress.runs][:2] == ["finished", "diverged"]
    late = make_cohort(optimizer=changes[1:] + [{}], training=training | {"evaluate_every_samples": 400})
    assert late.train(until=2) is None
    assert [progress.diverged_at is not None for progress in late.progress.runs] == [True, False, False]
    assert all(not progress.curve for progress in late.progress.runs)
