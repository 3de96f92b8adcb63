"""Halving without a barrier (ASHA): a setting is compared with those that have already reached the same rung."""

import functools
import json
import shutil

import pytest
import small_grid
import small_sweep
from small_grid import EPOCHS, GRID, RUNGS, SEEDS, planned
from small_sweep import Stop, StopAt

from jaxmatch.errors import InputError
from jaxmatch.sweep import asha, halving, launch, tuning
from jaxmatch.sweep.asha import Ladder, regroup_by_setting
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.sweep.halving import Standing
from jaxmatch.sweep.plan import make_plan
from jaxmatch.workdir import Workdir

RULE = functools.partial(halving.settle, eta=2, rungs=RUNGS, barrier=False)
run = functools.partial(small_grid.run, rule=RULE)


@pytest.mark.parametrize(("fit", "size"), [(8, 6), (6, 6), (5, 3), (2, 2), (1, 1)])
def test_a_cohort_holds_runs_of_one_setting(small_files, fit, size):
    """A cohort has as many runs as fit, and all cohorts have the same size."""
    sweep = launch.changed(planned(small_files, **{"execution.maximum_replicas": str(fit)}), seeds=6)
    plan = regroup_by_setting(make_plan(sweep))
    settings = [{run.config.optimizer.learning_rate for run in cohort.runs} for cohort in plan.cohorts]
    assert all(len(setting) == 1 for setting in settings)
    assert [len(cohort.runs) for cohort in plan.cohorts] == [size] * (24 // size)
    assert len(plan.runs) == 24


@pytest.fixture(scope="module")
def trained_grid(small_files, tmp_path_factory):
    """The records, watcher and folder of a trained grid."""
    workdir = tmp_path_factory.mktemp("trained_grid")
    return *run(small_files, workdir), workdir


def arrivals(workdir):
    return [json.loads(line) for line in (workdir / "arrivals.jsonl").read_text().splitlines()]


def replayed(workdir):
    """Returns the ladder that follows from the journal of a folder."""
    entries = arrivals(workdir)
    ladder = Ladder({setting for setting, rung, _ in entries if rung == 0}, len(RUNGS), 2, "accuracy")
    for setting, rung, standings in entries:
        ladder.arrive(setting, rung, [Standing(*each) for each in standings])
    return ladder


def agrees(workdir):
    """Checks that records, notes and journal agree, and returns the records."""
    ladder, records = replayed(workdir), small_sweep.records(workdir)
    assert ladder.complete()
    dropped = {name: RUNGS[rung] for name, rung in ladder.dropped().items()}
    for name, record in records.items():
        setting = name.rpartition("-seed")[0]
        if record["status"] == "diverged":
            assert setting in dropped
        elif setting in dropped:
            after = dropped[setting]
            assert record["dropped"] == {
                **{"after_epochs": after, "at_samples": 64 * after},
                **{"eta": 2, "rungs": list(RUNGS), "barrier": False},
            }
            assert record["status"] == "dropped" and len(record["curve"]) == after
        else:
            assert record["status"] == "finished" and len(record["curve"]) == EPOCHS
    notes = json.loads((workdir / "halving.json").read_text())
    assert [each["go_on"] for each in notes["decisions"]] == ladder.promoted
    assert [each["settings"] for each in notes["decisions"]] == [len(each) for each in ladder.arrived]
    return records


@pytest.mark.slow
def test_records_of_a_trained_grid_agree_with_its_journal(trained_grid):
    records, watcher, workdir = trained_grid
    assert len(agrees(workdir)) == len(records) == 8
    assert all(len(runs) == SEEDS for runs in watcher.trained)
    wanted = "successive halving without a barrier of 4 settings over 4 epochs keeps at least 2 after epoch 1, 1 after"
    assert wanted in watcher.text
    assert (
        "learning_rate=0.03 continues after epoch 1: rank 1 of 2 at this rung, mean dev.accuracy so far 0."
        in watcher.text
    )
    # The first two settings have reached the first rung, and the better one continues before the third begins.
    order = [(setting, rung) for setting, rung, _ in arrivals(workdir)]
    first = next(record["run"].rpartition("-seed")[0] for record in records)
    assert order.index((first, 1)) == 2
    choice = tuning.choose(records)
    assert (choice.candidates, choice.diverged) == (4, 1) and choice.dropped >= 1
    assert choice.overrides["optimizer.learning_rate"] == 0.03


@pytest.mark.slow
def test_second_launch_trains_nothing(small_files, trained_grid):
    before, journal = small_sweep.results(trained_grid[2]), arrivals(trained_grid[2])
    records, watcher = run(small_files, trained_grid[2])
    assert watcher.trained == [] and records == trained_grid[0] and arrivals(trained_grid[2]) == journal
    assert small_sweep.results(trained_grid[2]) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "count"),
    [
        ("evaluated", 1),
        ("paused", 1),
        ("paused", 4),
        ("done", 1),
        ("done", 2),
        ("saved", 1),
    ],
)
def test_a_killed_tuning_resumes_with_the_same_results(small_files, trained_grid, tmp_path, method, count):
    with pytest.raises(Stop):
        run(small_files, tmp_path, watcher=StopAt(method, count))
    if (tmp_path / "arrivals.jsonl").exists():
        with open(tmp_path / "arrivals.jsonl", "a") as file:
            file.write('["half a li')
    records, _ = run(small_files, tmp_path)
    assert small_sweep.results(tmp_path) == small_sweep.results(trained_grid[2])
    assert arrivals(tmp_path) == arrivals(trained_grid[2]) and len(records) == 8
    agrees(tmp_path)


@pytest.mark.slow
def test_a_failed_cohort_is_retried_by_the_next_launch(small_files, trained_grid, tmp_path, monkeypatch):
    small_sweep.fail_training(monkeypatch, RuntimeError("no"), after=1)
    with pytest.raises(FailedCohorts, match="RuntimeError: no; 2 of 8 runs are missing"):
        run(small_files, tmp_path)
    # Three settings reached the first rung. The best one continued, and waits at the next rung.
    assert [rung for _, rung, _ in arrivals(tmp_path)].count(0) == 3
    run(small_files, tmp_path)
    assert len(agrees(tmp_path)) == 8


@pytest.mark.slow
def test_two_settings_train_concurrently_on_four_devices(small_files, tmp_path):
    """A setting with two seeds takes two of the devices."""
    words = [
        "--asha",
        "--eta=2",
        "--rungs=1,3",
        "--seeds=2",
        f"--epochs={EPOCHS}",
        f"--grid.optimizer.learning_rate={GRID}",
    ]
    words = ["tune", *small_sweep.command(small_files, tmp_path, *words, "--final-seeds=2")[1:]]
    table, errors = small_sweep.on_devices(4, words)
    records = agrees(tmp_path)
    assert {record["device"].split(" x ")[0] for record in records.values()} == {"2"} and "among 4 settings" in table
    starts = [line for line in errors.splitlines() if "compiling" in line or "continues" in line]
    assert "compiling" in starts[0] and "compiling" in starts[1]


@pytest.mark.slow
def test_a_dropped_setting_with_a_diverged_run_is_not_trained_again(small_files, trained_grid, tmp_path):
    workdir = shutil.copytree(trained_grid[2], tmp_path / "again")
    records = {file: json.loads(file.read_text()) for file in workdir.glob("runs/*/record.json")}
    settings = {
        record["run"].rpartition("-")[0]: file for file, record in records.items() if record["status"] == "dropped"
    }
    for file in settings.values():  # one run of each dropped setting
        file.write_text(json.dumps(records[file] | {"status": "diverged"}))
    _, watcher = run(small_files, workdir)
    assert len(settings) > 1 and watcher.trained == []


@pytest.mark.slow
def test_cohorts_locked_by_another_launcher_with_more_seeds_are_waited_for(small_files, tmp_path):
    more = regroup_by_setting(make_plan(launch.changed(planned(small_files), seeds=SEEDS + 1)))
    claimed_folders = Workdir(tmp_path).claim([(cohort.signature, cohort.names()) for cohort in more.cohorts])
    locks = [folder.lock() for folder in claimed_folders]
    for lock in locks:
        lock.acquire(blocking=False)
    waited = []

    class Waiting(small_sweep.Watcher):
        def waiting(self, cohorts):
            waited.append(cohorts)
            for lock in locks:
                lock.release()

    records, _ = run(small_files, tmp_path, watcher=Waiting())
    assert len(records) == 4 * SEEDS and waited[0] == 4


@pytest.mark.slow
def test_folders_that_cannot_be_resumed_are_errors(small_files, trained_grid, tmp_path, capsys):
    with pytest.raises(InputError, match="halved at other rungs.*give another --workdir"):
        run(small_files, trained_grid[2], rule=functools.partial(halving.settle, eta=2, rungs=RUNGS))
    # A sweep that was started with several settings in a cohort.
    one_seed = launch.changed(planned(small_files), seeds=1)
    with pytest.raises(Stop):
        launch.run(one_seed, tmp_path / "mixed", StopAt("evaluated", 1), None)
    with pytest.raises(InputError, match="this cohort has several settings"):
        launch.run(one_seed, tmp_path / "mixed", small_sweep.Watcher(), RULE)
    assert not (tmp_path / "mixed" / "halving.json").exists()
    # The missing runs of two settings with the same signature would become one cohort.
    launch.run(one_seed, tmp_path / "fewer", small_sweep.Watcher(), None)
    with pytest.raises(InputError, match="several settings have some of their runs on record"):
        run(small_files, tmp_path / "fewer")
    for damage in ("{}\n", "no\n", '["other", 0, [[0.5, false], [0.5, false]]]\n', '["a", 0]\n'):
        workdir = shutil.copytree(trained_grid[2], tmp_path / "damaged", dirs_exist_ok=True)
        (workdir / "arrivals.jsonl").write_text(damage)
        with pytest.raises(InputError, match=r"arrivals.jsonl: the file is damaged.*remove it .* and start again"):
            run(small_files, workdir)
    with (
        asha.lock_journal(workdir / asha.JOURNAL),
        pytest.raises(InputError, match="another launcher tunes in this folder"),
    ):
        run(small_files, workdir)


def test_a_dry_run_shows_cohorts_of_one_setting(small_files, tmp_path):
    watcher = small_sweep.Watcher()
    launch.show_plan(planned(small_files), tmp_path / "work", watcher, RULE)
    assert (
        "remaining: 1 program, 4 cohorts" in watcher.text
        and "without a barrier of 4 settings over 4 epochs keeps at least 2" in watcher.text
    )
    assert not (tmp_path / "work").exists()
