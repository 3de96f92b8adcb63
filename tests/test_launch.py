"""Launches of a sweep: the runs that they train, and the folder and models afterwards."""

import dataclasses
import functools
import re
import shutil

import pytest
import small_sweep

from jaxmatch import extend
from jaxmatch.cli.main import main
from jaxmatch.config.settings import with_overrides
from jaxmatch.data import own
from jaxmatch.data.catalog import Source
from jaxmatch.files import write_json
from jaxmatch.reporting.records import read_sweep_folder
from jaxmatch.reporting.records import records_of as runs_of
from jaxmatch.reporting.table import folder_table
from jaxmatch.sweep import launch, provenance
from jaxmatch.sweep.plan import make_plan
from jaxmatch.workdir import CohortFolder, Workdir


@pytest.mark.slow
def test_a_sweep_trains_one_cohort_and_returns_the_table(finished_sweep):
    _, text, watcher = finished_sweep
    assert [len(runs) for runs in watcher.trained] == [2]
    assert "**A small sweep.**" in text
    assert "1 of 2 runs diverged and is in no mean" in text
    (diverged,) = (line for line in text.splitlines() if line.startswith("| 1e+30"))
    assert re.search(r"0 \+ 1 diverged", diverged)
    assert not re.search(r"\d\.\d", diverged.removeprefix("| 1e+30"))


@pytest.mark.slow
def test_a_second_launch_trains_nothing(small_files, finished_sweep, sweep_copy):
    shutil.rmtree(sweep_copy / "cohorts")  # the records alone say what is finished
    before = {file: file.stat().st_mtime_ns for file in sweep_copy.rglob("record.json")}
    changed = {"execution.checkpoint_seconds": "7", "execution.maximum_replicas": "1"}
    text, watcher = small_sweep.launched(small_files, sweep_copy, overrides=changed)
    assert watcher.trained == []
    assert text == finished_sweep[1]
    assert "2 runs, all on record" in watcher.text
    assert {file: file.stat().st_mtime_ns for file in sweep_copy.rglob("record.json")} == before


@pytest.mark.slow
def test_adding_a_seed_trains_only_that_seed(small_files, finished_sweep, sweep_copy):
    _, watcher = small_sweep.launched(small_files, sweep_copy, seeds=2, dry_run=True)
    assert "4 runs (2 on record); remaining: 1 program, 1 cohort, 12 training steps" in watcher.text
    text, watcher = small_sweep.launched(small_files, sweep_copy, seeds=2)
    assert [{run.rsplit("-", 1)[1] for run in runs} for runs in watcher.trained] == [{"seed1"}]
    assert "±" in text
    assert "2 of 4 runs diverged and are in no mean" in text
    both = small_sweep.results(sweep_copy)
    assert {run: both[run] for run in small_sweep.results(finished_sweep[0])} == small_sweep.results(finished_sweep[0])
    # With fewer seeds again, there is nothing to do, and the table is the old one.
    again, watcher = small_sweep.launched(small_files, sweep_copy)
    assert (again, watcher.trained) == (finished_sweep[1], [])


@pytest.mark.slow
def test_a_wider_grid_reuses_the_runs_trained_before(small_files, finished_sweep, sweep_copy):
    """Runs keep their names, and their files keep the overrides with which they were trained."""
    wider = {"optimizer.l2_penalty": "0.0,0.001"}
    _, watcher = small_sweep.launched(small_files, sweep_copy, grid_overrides=wider)
    assert [len(runs) for runs in watcher.trained] == [2]
    records = list(read_sweep_folder(sweep_copy).records.values())
    assert records == runs_of(sweep_copy)
    assert len(records) == 4
    assert all(record["overrides"].keys() == {"optimizer.learning_rate", "optimizer.l2_penalty"} for record in records)
    (value,) = {
        record["overrides"]["optimizer.l2_penalty"]
        for record in records
        if record["run"] in small_sweep.records(finished_sweep[0])
    }
    assert value == 0.0
    planned = launch.resolve(
        small_files / "small.py", overrides=small_sweep.overrides(small_files), grid_overrides=wider
    )
    again = launch.run(planned, sweep_copy, small_sweep.Watcher())
    assert sorted(again, key=lambda record: record["run"]) == sorted(records, key=lambda record: record["run"])
    # With the narrow grid again, commands that read the folder use the runs of that grid alone, like its table.
    small_sweep.launched(small_files, sweep_copy)
    assert len(runs_of(sweep_copy)) == 2


@pytest.mark.slow
def test_a_record_names_all_versions_that_trained_it(small_files, finished_sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "commit", lambda: "a" * 40)
    stopped = small_sweep.StopAt("evaluated", 3)
    with pytest.raises(small_sweep.Stop):
        settings = small_sweep.overrides(small_files)
        launch.sweep(small_files / "small.py", workdir=tmp_path, overrides=settings, display=stopped)
    monkeypatch.setattr(provenance, "commit", lambda: "b" * 40)
    small_sweep.launched(small_files, tmp_path)
    for record in small_sweep.records(tmp_path).values():
        assert [each["commit"] for each in record["trained_by"]] == ["a" * 40, "b" * 40]
        assert record["trained_by"][-1] == {name: record[name] for name in ("commit", "versions", "device")}
    assert "commits aaaaaaaa, bbbbbbbb." in folder_table(tmp_path)
    assert not any("trained_by" in record for record in small_sweep.records(finished_sweep[0]).values())


@pytest.mark.slow
def test_a_cohort_with_runs_that_are_not_planned_is_never_trained(small_files, sweep_copy, monkeypatch):
    # Another launcher trained the cohort when it was listed, and died before its lock was tried again.
    write_json(sweep_copy / "cohorts" / "other" / "cohort.json", {"signature": "s", "runs": ["planned-nowhere"]})
    assigned = iter([[CohortFolder(sweep_copy / "cohorts" / "other", "s", ("planned-nowhere",))], []])
    monkeypatch.setattr(Workdir, "assign", lambda self, planned, complete: next(assigned))
    monkeypatch.setattr(launch, "SECONDS_BETWEEN_POLLS", 0)
    assert small_sweep.launched(small_files, sweep_copy)[1].trained == []
    assert not (sweep_copy / "cohorts" / "other" / "error.json").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("restored_registries")
def test_each_data_set_chooses_its_checkpoints_by_its_own_score(small_files, tmp_path):
    """A sweep made in Python, whose variants are two data sets with the same pairs."""
    read = functools.partial(own.read, task="classification", labels=("no", "yes"))
    files = {split: (f"{split}.tsv",) for split in ("train", "dev", "test")}
    extend.add_data_set(Source("pairs", "classification", ("no", "yes"), ".", files, read, "f1"))
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files))
    variants = {"own": {}, "pairs": {"data.name": "pairs"}}
    planned = dataclasses.replace(planned, variants=variants, grid={}, seeds=(0, 1), table=None)
    records = launch.run(planned, tmp_path, small_sweep.Watcher())
    assert [record["selected_on"] for record in records[::2]] == ["dev.accuracy", "dev.f1"]
    assert [record["config"]["training"]["selection"] for record in records[::2]] == ["accuracy", "f1"]
    shown = ("dev.accuracy", "test.accuracy", "dev.f1", "test.f1")
    assert read_sweep_folder(tmp_path).layout.scores == shown
    chosen = dataclasses.replace(planned, config=with_overrides(planned.config, {"training.selection": "accuracy"}))
    names = [set(make_plan(sweep).runs) for sweep in (planned, chosen)]  # a named score is kept
    assert names[0] & names[1] == {record["run"] for record in records[:2]}


@pytest.mark.slow
def test_models_of_a_folder_share_their_vectors(finished_sweep):
    (shared,) = (finished_sweep[0] / "vectors").glob("*.npy")
    (model,) = (finished_sweep[0] / "runs").glob("[!.]*/model/vectors.npy")
    assert model.stat().st_ino == shared.stat().st_ino


@pytest.mark.slow
def test_evaluate_notes_a_split_file_that_changed_after_training(small_files, sweep_copy, tmp_path, capsys, caplog):
    run = next(run for run, record in small_sweep.records(sweep_copy).items() if record["status"] == "finished")
    changed = shutil.copytree(small_files, tmp_path / "changed")
    test = changed / "test.tsv"
    words = ["evaluate", str(sweep_copy / "runs" / run), "--data-directory"]
    assert main([*words, str(changed)]) == 0
    same = capsys.readouterr()
    header, *rows = test.read_text().splitlines()
    test.write_text("\n".join([header, *rows[:-1]]) + "\n")
    assert main([*words, str(changed)]) == 0
    other = capsys.readouterr()
    assert same.err == "" and caplog.messages == [f"{test} has changed since the run was trained"]
    assert same.out.splitlines()[0] != other.out.splitlines()[0]
