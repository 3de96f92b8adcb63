"""Launchers, from a file to the table: the plan, what is trained, what the folder says afterwards."""

import csv
import dataclasses
import io
import json
import re
import shutil

import jax
import pytest
import small_sweep

import jaxmatch
from jaxmatch.cli.main import main
from jaxmatch.cli.runs import records_of as runs_of
from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.reporting import folder_table
from jaxmatch.reporting.sweep_folder import read_sweep_folder
from jaxmatch.reporting.tables import Published, TableLayout
from jaxmatch.reporting.wording import duration_text
from jaxmatch.settings import default_config
from jaxmatch.sweep import display, execution, launch
from jaxmatch.sweep.display import plan_text
from jaxmatch.sweep.grid import Sweep
from jaxmatch.sweep.plan import make_plan
from jaxmatch.workdir import CohortFolder, Workdir

pytestmark = pytest.mark.usefixtures("programs_kept")


@pytest.fixture(scope="module")
def files(small_files):
    return small_files


@pytest.fixture(scope="module")
def finished(finished_sweep):
    return finished_sweep


@pytest.fixture
def copy(finished, tmp_path):
    """A finished sweep that may be changed."""
    return shutil.copytree(finished[0], tmp_path / "copy")


def planned(files, **arguments):
    arguments["overrides"] = small_sweep.overrides(files) | arguments.get("overrides", {})
    return make_plan(launch.resolve(files / "small.py", **arguments))


# -- the plan ----------------------------------------------------------------------------------------------------------


def test_a_dry_run_shows_the_plan_and_writes_nothing(files, tmp_path):
    text, watcher = small_sweep.launched(files, tmp_path / "work", dry_run=True, seeds=3)
    assert (text, watcher.trained) == ("", [])
    assert "sweep small: 6 runs (0 on record); to go: 1 program, 1 cohort, 12 lockstep steps" in watcher.text
    assert "6 runs at once, 1 shape, 4 steps x 3 epochs" in watcher.text
    assert "estimated training time" in watcher.text
    assert list(tmp_path.iterdir()) == []


def test_on_an_accelerator_the_plan_says_that_memory_is_an_estimate(files):
    plan = planned(files)
    told = "memory is an estimate; how many runs are computed at once follows from the compiled programs"
    assert (told in plan_text(plan, set())) == (jax.default_backend() != "cpu")
    (cohort,) = plan.cohorts
    cohort = dataclasses.replace(cohort, needs=dataclasses.replace(cohort.needs, most=None))  # as `memory.needs` says
    assert told in plan_text(dataclasses.replace(plan, cohorts=(cohort,)), set())


def test_the_plan_counts_programs_and_cohorts(files):
    plan = planned(
        files,
        seeds=3,
        grid_overrides={"model.hidden_size": "8,12"},
        overrides={"execution.maximum_replicas": "4"},
    )
    text = plan_text(plan, set())
    assert "12 runs (0 on record); to go: 2 programs, 4 cohorts, 48 lockstep steps" in text
    assert [line.split(":")[1].strip() for line in text.splitlines()[1:-1]] == [
        "hidden_size=8",
        "learning_rate=1e+30 hidden_size=8",
        "hidden_size=12",
        "learning_rate=1e+30 hidden_size=12",
    ]
    assert re.findall(r"(\d+) runs? at once", text) == ["4", "2", "4", "2"]


def test_the_time_counts_what_the_devices_compute(files, monkeypatch):
    plan = planned(files, seeds=5, overrides={"execution.maximum_replicas": "5"})
    first, _ = plan.cohorts
    monkeypatch.setattr(
        display, "multiplications_a_second", lambda: first.multiplications / display.SHARE_OF_PEAK / 100
    )

    def seconds(**changes):
        changed = [dataclasses.replace(cohort, **changes) for cohort in plan.cohorts]
        text = plan_text(dataclasses.replace(plan, cohorts=tuple(changed)), set())
        return re.search("estimated training time: (.* min)", text)[1]

    assert seconds(there_are=1) == "17 min"  # 100 s a run
    assert seconds(there_are=1, limit=4) == "20 min"  # two turns of three
    assert seconds(there_are=2) == "10 min"  # three on a device, of which one is a filler
    assert seconds(there_are=4) == "7 min"  # on three devices, so that one cohort waits for the other
    assert seconds(there_are=10) == "2 min"  # beside each other


def test_the_plan_counts_only_what_is_missing(files):
    plan = planned(files, seeds=3, overrides={"execution.maximum_replicas": "2"})
    names = list(plan.runs)
    text = plan_text(plan, {name for name in names if not name.endswith("-seed2")})
    assert "6 runs (4 on record); to go: 1 program, 1 cohort, 12 lockstep steps" in text
    assert "cohort 1: re2: 2 runs at once" in text
    assert plan_text(plan, set(names)) == "sweep small: 6 runs, all on record"


def test_the_plan_is_of_cohorts_as_they_are_then_claimed(files, tmp_path):
    plan = planned(files, seeds=5, overrides={"execution.maximum_replicas": "4"})
    claimed = Workdir(tmp_path).claim([(cohort.signature, cohort.names()) for cohort in plan.cohorts])
    assert [cohort.runs for cohort in claimed] == [cohort.names() for cohort in plan.missing(set())]


def test_a_config_file_is_one_run_and_train_means_one_seed(files, tmp_path):
    file = tmp_path / "tiny.py"
    file.write_text(
        (files / "small.py").read_text().replace("get_sweep() -> Sweep", "get_sweep()") + "\n\n"
        "def get_config():\n    return get_sweep().config\n"
    )
    watcher = small_sweep.Watcher()
    arguments = {
        "workdir": tmp_path / "work",
        "dry_run": True,
        "display": watcher,
        "overrides": small_sweep.overrides(files),
    }
    launch.train(file, **arguments, options={})
    assert "sweep small: 2 runs (0 on record)" in watcher.text  # the grid of the file, one seed
    file.write_text(file.read_text().replace("def get_sweep", "def _sweep").replace("get_sweep()", "_sweep()"))
    watcher = arguments["display"] = small_sweep.Watcher()
    launch.train(file, **arguments)
    assert "sweep tiny: 1 run (0 on record)" in watcher.text
    launch.train(file, **arguments, seeds=4)
    assert "sweep tiny: 4 runs (0 on record)" in watcher.text
    with pytest.raises(InputError, match="a training has no grid"):
        launch.train(file, **arguments, grid_overrides={"model.blocks": "1,2"})


def test_figures_chosen_on_test_go_with_the_best_on_test():
    rows = (
        Published("a", {"test.accuracy": "88.9"}, "", chosen_on_test=True),
        Published("b", {"test.accuracy": "80.0"}, ""),
    )
    layout = TableLayout("t", (), scores=("dev.accuracy", "test.accuracy"), published=rows)
    swept = Sweep("s", default_config(), {}, (0,), layout)
    table = launch.changed(swept, overrides={"training.best_on_test": "True"}).table
    assert [dict(row.scores) for row in table.published] == [
        {"test.accuracy": "88.9", "best_on_test.accuracy": "88.9"},
        {"test.accuracy": "80.0"},
    ]
    assert launch.changed(swept).table.published == rows


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_durations_are_for_people(seconds, text):
    assert duration_text(seconds) == text


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_trains_its_cohort_once_and_gives_the_table(finished):
    _, text, watcher = finished
    assert [len(runs) for runs in watcher.trained] == [2]
    assert "**A small sweep.**" in text
    assert "1 of 2 runs diverged and is in no mean" in text
    (diverged,) = (line for line in text.splitlines() if line.startswith("| 1e+30"))
    assert re.search(r"0 \+ 1 diverged", diverged)
    assert not re.search(r"\d\.\d", diverged.removeprefix("| 1e+30"))


@pytest.mark.slow
def test_a_second_launch_trains_nothing(files, finished, copy):
    before = {file: file.stat().st_mtime_ns for file in copy.rglob("record.json")}
    text, watcher = small_sweep.launched(files, copy)
    assert watcher.trained == []
    assert text == finished[1]
    assert "2 runs, all on record" in watcher.text
    assert {file: file.stat().st_mtime_ns for file in copy.rglob("record.json")} == before


@pytest.mark.slow
def test_other_paths_and_execution_settings_train_nothing_either(files, copy, tmp_path):
    moved = shutil.copytree(files, tmp_path / "moved", ignore=shutil.ignore_patterns("finished"))
    changed = {"execution.checkpoint_seconds": "7", "execution.maximum_replicas": "1"}
    assert small_sweep.launched(moved, copy, overrides=changed)[1].trained == []


@pytest.mark.slow
def test_adding_a_seed_trains_only_that_seed(files, finished, copy):
    _, watcher = small_sweep.launched(files, copy, seeds=2, dry_run=True)
    assert "4 runs (2 on record); to go: 1 program, 1 cohort, 12 lockstep steps" in watcher.text
    text, watcher = small_sweep.launched(files, copy, seeds=2)
    assert [{run.rsplit("-", 1)[1] for run in runs} for runs in watcher.trained] == [{"seed1"}]
    assert "±" in text
    assert "2 of 4 runs diverged and are in no mean" in text
    both = small_sweep.lasting(copy)
    assert {run: both[run] for run in small_sweep.lasting(finished[0])} == small_sweep.lasting(finished[0])
    # Back to fewer seeds: nothing to do, and the table is the old one.
    again, watcher = small_sweep.launched(files, copy)
    assert (again, watcher.trained) == (finished[1], [])


@pytest.mark.slow
def test_a_wider_grid_places_what_was_trained_before(files, finished, copy):
    """Runs keep their names, and their files the place they were trained at."""
    wider = {"optimizer.weight_decay": "0.0,0.001"}
    _, watcher = small_sweep.launched(files, copy, grid_overrides=wider)
    assert [len(runs) for runs in watcher.trained] == [2]
    records = list(read_sweep_folder(copy).records.values())
    assert records == runs_of(copy)
    assert len(records) == 4
    assert all(
        record["overrides"].keys() == {"optimizer.learning_rate", "optimizer.weight_decay"} for record in records
    )
    (value,) = {
        record["overrides"]["optimizer.weight_decay"]
        for record in records
        if record["run"] in small_sweep.records(finished[0])
    }
    assert value == 0.0
    planned = launch.resolve(files / "small.py", overrides=small_sweep.overrides(files), grid_overrides=wider)
    again = launch.run(planned, copy, small_sweep.Watcher())
    assert sorted(again, key=lambda record: record["run"]) == sorted(records, key=lambda record: record["run"])
    # Back to the narrow grid: what is drawn and put together is of that alone, as its table is.
    small_sweep.launched(files, copy)
    assert len(runs_of(copy)) == 2


@pytest.mark.slow
def test_a_removed_run_comes_back_with_the_same_bits(files, finished, copy):
    run = next(iter(small_sweep.records(copy)))
    shutil.rmtree(copy / "runs" / run)
    small_sweep.launched(files, copy)
    assert small_sweep.lasting(copy) == small_sweep.lasting(finished[0])


@pytest.mark.slow
def test_a_cohort_with_runs_that_are_not_planned_is_never_trained(files, copy, monkeypatch):
    # It was somebody's when it was claimed, and that launcher died before its lock was tried again.
    write_json(copy / "cohorts" / "other" / "cohort.json", {"signature": "s", "runs": ["planned-nowhere"]})
    claims = iter([[CohortFolder(copy / "cohorts" / "other", "s", ("planned-nowhere",))], []])
    monkeypatch.setattr(Workdir, "claim", lambda self, planned, settled: next(claims))
    monkeypatch.setattr(execution, "SECONDS_BETWEEN_TRIES", 0)
    assert small_sweep.launched(files, copy)[1].trained == []
    assert not (copy / "cohorts" / "other" / "error.json").exists()


@pytest.mark.slow
def test_a_saved_run_answers_and_gives_the_score_of_its_record(files, finished, capsys):
    workdir = finished[0]
    run, record = next(item for item in small_sweep.records(workdir).items() if item[1]["status"] == "finished")
    rows = [line.split("\t") for line in (files / "test.tsv").read_text().splitlines()[1:]]
    predictions = jaxmatch.load(workdir / "runs" / run).predict([(a, b) for a, b, _ in rows])
    right = sum(prediction.label == label for prediction, (_, _, label) in zip(predictions, rows, strict=True))
    assert right / len(rows) == record["test"]["accuracy"]
    assert main(["evaluate", str(workdir / "runs" / run), "--format", "json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    for name, value in scores.items():
        assert value == pytest.approx(record["test"][name], abs=1e-6), name


@pytest.mark.slow
def test_a_diverged_run_has_no_model_to_load(finished):
    run = next(run for run, record in small_sweep.records(finished[0]).items() if record["status"] == "diverged")
    with pytest.raises(InputError, match="left a record but no model"):
        jaxmatch.load(finished[0] / "runs" / run)


@pytest.mark.slow
def test_models_of_a_folder_share_their_vectors(finished):
    (shared,) = (finished[0] / "vectors").glob("*.npy")
    (model,) = (finished[0] / "runs").glob("[!.]*/model/vectors.npy")
    assert model.stat().st_ino == shared.stat().st_ino


# -- the table of a folder ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_table_of_a_folder_in_all_formats(finished):
    workdir, text, _ = finished
    assert folder_table.table(workdir) == text
    assert r"\toprule" in folder_table.table(workdir, "latex")
    assert json.loads(folder_table.table(workdir, "json"))
    (record,) = (each for each in small_sweep.records(workdir).values() if each["status"] == "finished")
    assert repr(record["test"]["accuracy"]) in folder_table.table(workdir, "csv")
    assert len(list(csv.reader(io.StringIO(folder_table.table(workdir, "csv"))))) > 2
    with pytest.raises(InputError, match='did you mean "markdown"'):
        folder_table.table(workdir, "markdwon")


@pytest.mark.slow
def test_runs_that_have_not_finished_are_noted(copy):
    run = next(run for run, record in small_sweep.records(copy).items() if record["status"] == "diverged")
    shutil.rmtree(copy / "runs" / run)
    assert "1 of 2 runs have not finished" in folder_table.table(copy)
    shutil.rmtree(copy / "runs")
    with pytest.raises(InputError, match="no run has finished yet"):
        folder_table.table(copy)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ['{"format": 1}', '{"format": ', ""])
def test_a_damaged_record_is_one_line(copy, capsys, damage):
    run = next(iter(small_sweep.records(copy)))
    (copy / "runs" / run / "record.json").write_text(damage)
    assert main(["table", str(copy)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("jaxmatch: ")


@pytest.mark.slow
def test_a_layout_that_cannot_be_followed_names_its_file(copy):
    notes = json.loads((copy / "sweep.json").read_text())
    notes["layout"]["scores"] = ["x"]
    (copy / "sweep.json").write_text(json.dumps(notes))
    with pytest.raises(InputError, match="sweep.json: the table asks for 'x', which is no score"):
        folder_table.table(copy)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"layout": {}, "runs": []}', '{"layout": {"published": []}}'])
def test_a_damaged_note_of_the_sweep_is_one_line_and_is_renewed(files, copy, damage):
    (copy / "sweep.json").write_text(damage)
    with pytest.raises(InputError, match="sweep.json: the file is damaged"):
        folder_table.table(copy)
    small_sweep.launched(files, copy)
    assert "A small sweep" in folder_table.table(copy)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"layout": {"title": 3}},
        {"layout": {"order": None}},
        {"layout": {"order": {"seed": 3}}},
        {"layout": {"original": 3}},
        {"layout": {"columns": ["seed"]}},
        {"layout": {"notes": [3]}},
        {"places": {"variant": 1}},
        {"places": {"overrides": 3}},
    ],
    ids=json.dumps,
)
def test_a_note_of_the_sweep_with_a_wrong_type_is_one_line(copy, change):
    notes = json.loads((copy / "sweep.json").read_text())
    notes["layout"] |= change.get("layout", {})
    notes["places"] = {run: place | change.get("places", {}) for run, place in notes["places"].items()}
    if change.get("places") == {"variant": 1}:
        for place in notes["places"].values():
            del place["overrides"]
    (copy / "sweep.json").write_text(json.dumps(notes))
    with pytest.raises(InputError, match="sweep.json: the file is damaged"):
        folder_table.table(copy)


@pytest.mark.slow
def test_the_record_of_another_run_is_told(copy):
    one, other = small_sweep.records(copy)
    shutil.copy(copy / "runs" / one / "record.json", copy / "runs" / other / "record.json")
    with pytest.raises(InputError, match=f"{other}/record.json: this is the record of the run {one}"):
        folder_table.table(copy)


def test_a_folder_without_a_sweep_has_no_table(tmp_path):
    with pytest.raises(InputError, match="no sweep was run in this folder"):
        folder_table.table(tmp_path)


@pytest.mark.slow
def test_a_split_whose_file_has_changed_since_is_told(files, copy, tmp_path, capsys):
    run = next(run for run, record in small_sweep.records(copy).items() if record["status"] == "finished")
    changed = shutil.copytree(files, tmp_path / "changed")
    test = changed / "test.tsv"
    words = ["evaluate", str(copy / "runs" / run), "--data-directory"]
    assert main([*words, str(changed)]) == 0
    same = capsys.readouterr()
    header, *rows = test.read_text().splitlines()
    test.write_text("\n".join([header, *rows[:-1]]) + "\n")
    assert main([*words, str(changed)]) == 0
    other = capsys.readouterr()
    assert same.err == "" and other.err == f"note: {test} has changed since the run was trained\n"
    assert same.out.splitlines()[0] != other.out.splitlines()[0]
