"""Successive halving makes the choice of the whole grid, and its finished runs equal those of the whole grid."""

import functools
import json
import re
import shutil

import pytest
import small_sweep
from small_sweep import Stop, StopAt

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.reporting.records import read_sweep_folder
from jaxmatch.reporting.table import folder_table, make_table
from jaxmatch.sweep import halving, launch, tune
from jaxmatch.workdir import FailedCohorts, Workdir

pytestmark = pytest.mark.slow

GRID, RUNGS, EPOCHS = "0.03,1e30,0.00003,0.003", (1, 3), 4  # one setting diverges
STEPS = 4  # an epoch
RULE = functools.partial(halving.halving_rule, eta=2, rungs=RUNGS)


def run(files, workdir, rule=RULE, watcher=None):
    """Trains the grid with two seeds, in two cohorts of four runs. Returns the records and the watcher."""
    watcher = watcher or small_sweep.Watcher()
    overrides = {"training.epochs": str(EPOCHS), "execution.maximum_replicas": "4"}
    planned = launch.resolve(
        files / "small.py",
        seeds=2,
        grid_overrides={"optimizer.learning_rate": GRID},
        overrides=small_sweep.overrides(files) | overrides,
    )
    return launch.run(planned, workdir, watcher, rule), watcher


@pytest.fixture(scope="module")
def whole(small_files, tmp_path_factory):
    """The records and the folder of the whole grid."""
    workdir = tmp_path_factory.mktemp("whole")
    return run(small_files, workdir, rule=None)[0], workdir


@pytest.fixture(scope="module")
def halved(small_files, tmp_path_factory):
    """The records, the watcher and the folder of the grid that was halved."""
    workdir = tmp_path_factory.mktemp("halved")
    return *run(small_files, workdir), workdir


def by_rate(records):
    found = {}
    for record in records:
        found.setdefault(record["overrides"]["optimizer.learning_rate"], []).append(record)
    return found


def test_halving_chooses_the_same_setting_as_the_whole_grid(whole, halved):
    full, chosen = tune.choose(whole[0]), tune.choose(halved[0])
    assert (chosen.overrides, chosen.mean) == (full.overrides, pytest.approx(full.mean, abs=1e-6))
    assert (full.candidates, full.diverged, full.dropped) == (4, 1, 0)
    assert (chosen.candidates, chosen.diverged, chosen.dropped) == (4, 1, 2)
    assert (
        "among 4 settings, 1 of which diverged, 2 of which were dropped by successive halving: learning rate "
        in chosen.note()
    )


def test_dropped_run_is_recorded_with_its_curve_so_far(whole, halved):
    before = {record["run"]: record for record in whole[0]}
    statuses = {rate: [record["status"] for record in records] for rate, records in by_rate(halved[0]).items()}
    best = tune.choose(halved[0]).overrides["optimizer.learning_rate"]
    ends = {1e30: "diverged", best: "finished"}
    assert statuses == {rate: [ends.get(rate, "dropped")] * 2 for rate in statuses}
    epochs = []
    for record in halved[0]:
        if record["status"] != "dropped":
            assert record["dropped"] is None
            continue
        after = record["dropped"]["after_epochs"]
        epochs.append(after)
        assert record["dropped"] == {"after_epochs": after, "at_samples": 64 * after, "eta": 2, "rungs": [1, 3]}
        assert record["test"] is None and not (halved[2] / "runs" / record["run"] / "model").exists()
        known = before[record["run"]]["curve"][:after]
        assert [entry["samples"] for entry in record["curve"]] == [entry["samples"] for entry in known]
        assert [e["train_loss"] for e in record["curve"]] == pytest.approx([e["train_loss"] for e in known], abs=1e-6)
        assert record["dev"]["accuracy"] == max(entry["dev"]["accuracy"] for entry in record["curve"])
    assert sorted(epochs) == [1, 1, 3, 3]


def test_halving_json_records_decisions_and_saved_steps(halved):
    notes = json.loads((halved[2] / "halving.json").read_text())
    assert [each["after_epochs"] for each in notes["decisions"]] == [1, 3]
    assert [(each["settings"], len(each["ranking"]), len(each["go_on"])) for each in notes["decisions"]] == [
        (4, 3, 2),
        (2, 2, 1),
    ]
    # The best two settings of the first rung are in different cohorts, and one of the cohorts ends at the second rung.
    # A chunk has room for all four runs of a cohort, and computes them all.
    assert notes["saving"]["replica_steps"] == {"made": 4 * (3 + EPOCHS) * STEPS, "whole": 8 * EPOCHS * STEPS}
    assert 0 < notes["saving"]["train_seconds"]["made"]
    printed = halved[1].text
    assert "of 4 settings over 4 epochs keeps 2 after epoch 1, 1 after epoch 3;" in printed
    assert "rung after epoch 1: 2 of 4 settings continue (mean dev.accuracy so far" in printed
    assert "successive halving: 112 of 128 steps of runs, trained for" in printed


def test_rerun_trains_nothing_and_leaves_the_results_unchanged(small_files, halved):
    notes, lasting = (halved[2] / "halving.json").read_text(), small_sweep.results(halved[2])
    records, watcher = run(small_files, halved[2])
    assert watcher.trained == [] and records == halved[0] and "8 runs, all on record" in watcher.text
    assert (halved[2] / "halving.json").read_text() == notes and small_sweep.results(halved[2]) == lasting


def test_tables_count_dropped_runs_and_exclude_them_from_means(halved):
    text = folder_table(halved[2])
    assert text == make_table(halved[0], read_sweep_folder(halved[2]).layout).markdown()
    assert (
        "4 of 8 runs were dropped by successive halving (2 after epoch 1, 2 after epoch 3; the best 1/2 of the set"
        in text
    )
    assert (
        "2 of 8 runs diverged" in text
        and text.count("0 + 2 dropped") == 2
        and len(re.findall(r"\| +dropped", text)) == 4
    )
    lines = folder_table(halved[2], "csv").splitlines()
    assert lines[0].startswith("optimizer.learning_rate,parameters,finished,diverged,dropped,")
    assert main(["report", str(halved[2])]) == 0
    page = (halved[2] / "report.html").read_text()
    assert "8 runs planned, 2 finished, 2 diverged, 4 dropped by successive halving, 0 missing." in page


@pytest.mark.parametrize(
    ("method", "count"),
    # Stops during training before a rung, when the second cohort has paused at a rung, at its decision, and when a
    # cohort is done. A cohort calls `ended` twice: when it ends, and when its training has ended for any reason.
    [("evaluated", 1), ("ended", 3), ("rung", 2), ("ended", 9)],
)
def test_interrupted_halving_resumes_with_the_same_results(small_files, halved, tmp_path, method, count):
    with pytest.raises(Stop):
        run(small_files, tmp_path, watcher=StopAt(method, count))
    records, _ = run(small_files, tmp_path)
    assert small_sweep.results(tmp_path) == small_sweep.results(halved[2])
    made, known = (json.loads((folder / "halving.json").read_text()) for folder in (tmp_path, halved[2]))
    assert made["decisions"] == known["decisions"]
    assert made["saving"]["replica_steps"] == known["saving"]["replica_steps"]
    assert [record["run"] for record in records] == [record["run"] for record in halved[0]]


def test_plain_sweep_trains_only_the_dropped_runs_again(small_files, whole, halved, tmp_path):
    """A plain sweep treats dropped runs as missing: it trains them from the start and does not change other runs."""
    workdir = shutil.copytree(halved[2], tmp_path / "work")
    dropped = {record["run"] for record in halved[0] if record["status"] == "dropped"}
    records, watcher = run(small_files, workdir, rule=None)
    assert [set(runs) for runs in watcher.trained] == [dropped] and "8 runs (4 on record)" in watcher.text
    assert {record["status"] for record in records} == {"finished", "diverged"}
    assert tune.choose(records) == tune.choose(whole[0])
    # Halving then finds every run finished.
    again, watcher = run(small_files, workdir)
    assert watcher.trained == [] and again == records


def test_different_halving_rule_in_the_same_folder_is_refused(small_files, halved):
    notes = (halved[2] / "sweep.json").read_text()
    with pytest.raises(
        InputError, match=r"halving.json: the grid of this folder was halved at other rungs.*another --workdir"
    ):
        run(small_files, halved[2], rule=functools.partial(halving.halving_rule, eta=3, rungs=RUNGS))
    assert (halved[2] / "sweep.json").read_text() == notes


def test_failed_cohort_blocks_the_rung_decision_but_not_other_cohorts(small_files, halved, tmp_path, monkeypatch):
    calls = small_sweep.fail_training(monkeypatch, RuntimeError("no"))
    with pytest.raises(FailedCohorts, match="RuntimeError: no; 4 of 8 runs are missing"):
        run(small_files, tmp_path)
    assert calls == [1, 1] and len(list(tmp_path.glob("cohorts/*/rung-1.json"))) == 1  # the other waits at the rung
    run(small_files, tmp_path)
    assert calls[2:4] == [1, 3] and not list(tmp_path.glob("cohorts/*/error.json"))
    assert small_sweep.results(tmp_path) == small_sweep.results(halved[2])


def test_damaged_files_are_input_errors(small_files, halved, tmp_path):
    for name, problem in (("halving.json", ""), ("cohorts/*/rung-1.json", ".*remove it and start again")):
        workdir = shutil.copytree(halved[2], tmp_path / name[:3])
        min(workdir.glob(name)).write_text("{")
        with pytest.raises(InputError, match=f"{name.rpartition('/')[2]}: the file is damaged{problem}"):
            run(small_files, workdir)


def test_concurrent_launchers_give_the_same_results_as_one(small_files, halved, tmp_path, monkeypatch):
    """After one launcher has listed the cohorts, another trains them to the end before the first one begins."""
    real = Workdir.assign

    def assign(*arguments):
        assigned = real(*arguments)
        monkeypatch.setattr(Workdir, "assign", real)
        run(small_files, tmp_path)
        return assigned

    monkeypatch.setattr(Workdir, "assign", assign)
    records, watcher = run(small_files, tmp_path)
    assert watcher.trained == [] and len(records) == 8
    assert small_sweep.results(tmp_path) == small_sweep.results(halved[2])
