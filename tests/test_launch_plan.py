"""The plan of a launch: from a sweep file to the text shown before training, and what is refused before training."""

import dataclasses
import re
import shutil

import jax
import pytest
import small_sweep

from jaxmatch.errors import InputError
from jaxmatch.sweep import launch
from jaxmatch.sweep.display import plan_text
from jaxmatch.sweep.plan import PlannedCohort, make_plan


def planned(small_files, **arguments):
    arguments["overrides"] = small_sweep.overrides(small_files) | arguments.get("overrides", {})
    return make_plan(launch.resolve(small_files / "small.py", **arguments))


def test_a_dry_run_shows_the_plan_and_writes_nothing(small_files, tmp_path):
    text, watcher = small_sweep.launched(small_files, tmp_path / "work", dry_run=True, seeds=3)
    assert (text, watcher.trained) == ("", [])
    assert "sweep small: 6 runs (0 on record); remaining: 1 program, 1 cohort, 12 training steps" in watcher.text
    assert "6 runs at once, 1 padded length, 4 steps x 3 epochs" in watcher.text
    assert "estimated training time" in watcher.text
    assert list(tmp_path.iterdir()) == []


def test_plan_reports_pairs_and_vector_lines_left_out(small_files, tmp_path):
    files = small_sweep.write_files(tmp_path / "files")
    with open(files / "train.tsv", "a") as train, open(files / "vectors.txt", "a") as vectors:
        train.write("a\tb\t-1\n")
        train.write("ba\tbo\tNone\n")
        train.write("many words without any vector\tb\tno\n" * 400)
        vectors.write("wrong 1 2\n")
    line = len((files / "vectors.txt").read_text().splitlines())
    lines = plan_text(planned(files, seeds=3, grid_overrides={"model.hidden_size": "8,12"}), set()).splitlines()
    assert [note for note in lines if "left out" in note or "warning" in note] == [
        "  pairs of own left out: 1 of train (no label)",
        f"  damaged lines of the vectors vectors left out: 1 (line {line}: 2 numbers instead of 8)",
        "  warning about own: label 'None' of 1 training pair looks like a missing label; if it is, leave it empty: "
        "such pairs are left out",
        "  warning about own: only 29.8% of all tokens have a vector in vectors",
    ]


def test_the_plan_counts_programs_and_cohorts(small_files):
    plan = planned(
        small_files,
        seeds=3,
        grid_overrides={"model.hidden_size": "8,12"},
        overrides={"execution.maximum_replicas": "4"},
    )
    text = plan_text(plan, set())
    assert "12 runs (0 on record); remaining: 2 programs, 4 cohorts, 48 training steps" in text
    assert [line.split(":")[1].strip() for line in text.splitlines()[1:-2]] == [
        "hidden size 8",
        "learning rate 1e+30, hidden size 8",
        "hidden size 12",
        "learning rate 1e+30, hidden size 12",
    ]
    assert re.findall(r"(\d+) runs? at once", text) == ["4", "2", "4", "2"]


def test_estimated_training_time_accounts_for_devices_and_fillers(small_files):
    plan = planned(small_files, seeds=5, overrides={"execution.maximum_replicas": "5"})

    def seconds(**changes):
        changed = [dataclasses.replace(cohort, run_seconds=100, **changes) for cohort in plan.cohorts]
        text = plan_text(dataclasses.replace(plan, cohorts=tuple(changed)), set())
        return re.search("estimated training time: (.* min)", text)[1]

    assert seconds(available=1) == "17 min"  # 100 s per run
    assert seconds(available=1, batch=32) == "20 min"  # two chunks of three, one of which is a filler
    assert seconds(available=2) == "10 min"  # three per device, one of which is a filler
    assert seconds(available=4) == "7 min"  # on three devices of four


def test_plan_counts_only_missing_runs(small_files):
    plan = planned(small_files, seeds=3, overrides={"execution.maximum_replicas": "2"})
    names = list(plan.runs)
    text = plan_text(plan, {name for name in names if not name.endswith("-seed2")})
    assert "6 runs (4 on record); remaining: 1 program, 1 cohort, 12 training steps" in text
    assert "cohort 1: re2: 2 runs at once" in text
    assert plan_text(plan, set(names)) == "sweep small: 6 runs, all on record"


def test_config_file_is_one_run_and_train_defaults_to_one_seed(small_files, tmp_path):
    small = (small_files / "small.py").read_text().replace("get_sweep() -> Sweep", "_sweep()")
    file = tmp_path / "tiny.py"
    file.write_text(small + "\n\ndef get_config():\n    return _sweep().config\n")
    overrides = small_sweep.overrides(small_files)
    for seeds, runs in ((None, "1 run"), (4, "4 runs")):
        watcher = small_sweep.Watcher()
        launch.train(file, workdir=tmp_path, dry_run=True, display=watcher, overrides=overrides, seeds=seeds)
        assert f"sweep tiny: {runs} (0 on record)" in watcher.text
    with pytest.raises(InputError, match="small.py: it is a sweep; give it to jaxmatch sweep"):
        launch.train(small_files / "small.py", workdir=tmp_path, overrides=overrides)


@pytest.mark.parametrize(
    ("runs", "available", "platform", "batch", "devices", "computed"),
    [
        (10, 1, "gpu", 64, 1, 10),
        (7, 1, "cpu", 64, 1, 8),  # four chunks of two
        (10, 1, "cpu", 64, 1, 10),
        (3, 8, "gpu", 64, 3, 1),
        (10, 8, "gpu", 64, 5, 2),
        (11, 8, "gpu", 64, 6, 2),  # 6 devices of 2: one slot has no run
    ],
)
def test_work_of_a_cohort_includes_slots_without_a_run(runs, available, platform, batch, devices, computed):
    cohort = PlannedCohort("signature", (None,) * runs, None, batch, 1, 1, 1, 1, 10.0, 1, platform, available)
    assert (cohort.devices, cohort.seconds) == (devices, 10.0 * computed)


def test_duplicate_grid_setting_is_refused(small_files):
    arguments = {"overrides": small_sweep.overrides(small_files), "grid_overrides": {"model.blocks": "1,1.0"}}
    with pytest.raises(InputError, match="^learning rate 0.01, blocks 1 is in the grid twice; remove one"):
        make_plan(launch.resolve(small_files / "small.py", **arguments))


def test_variants_with_the_same_settings_are_named(small_files):
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files))
    variants = {"whole": {}, "small": {"model.hidden_size": 4}, "by accuracy": {"training.selection": "accuracy"}}
    with pytest.raises(InputError, match='^the variants "whole" and "by accuracy" have the same settings; remove one$'):
        make_plan(dataclasses.replace(planned, variants=variants))


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"training.selection": "mrr"}, '"mrr" is not a score of a classification data set.*accuracy'),
        ({"data.task": "regression"}, "not a number|number"),
        ({"data.name": "owm"}, "own"),
        ({"data.vectors": ""}, "vectors"),
        ({"data.directory": "/no/such/folder"}, "/no/such/folder"),
    ],
)
def test_invalid_settings_are_refused_before_anything_is_written(small_files, tmp_path, overrides, problem):
    with pytest.raises(InputError, match=problem):
        small_sweep.launched(small_files, tmp_path / "work", overrides=overrides)
    assert not (tmp_path / "work").exists()


ROWS = 'rows=("optimizer.learning_rate",)'


@pytest.mark.parametrize(
    ("written", "wrong", "problem"),
    [
        (ROWS, ROWS.replace("optimizer", "optimiser"), 'not a setting of its runs; did you mean "optimizer.l'),
        ('"test.accuracy")', '"test.acuracy")', "asks for 'test.acuracy', .* did you mean \"test.accuracy\""),
        ('"test.accuracy")', '"best.accuracy")', "asks for 'best.accuracy', which no run has"),
        (ROWS, 'rows=(), original={"model.blocks": 1}', "original is named by 'model.blocks', which labels"),
    ],
)
def test_table_layout_that_matches_no_run_is_refused_before_training(small_files, tmp_path, written, wrong, problem):
    file = tmp_path / "mine.py"
    assert written in small_sweep.SWEEP
    file.write_text(small_sweep.SWEEP.replace(written, wrong))
    with pytest.raises(InputError, match=problem):
        launch.sweep(file, workdir=tmp_path / "work", overrides=small_sweep.overrides(small_files))
    assert not (tmp_path / "work").exists()


def test_undefined_selection_score_on_dev_is_refused(small_files, tmp_path):
    folder = shutil.copytree(small_files, tmp_path / "files", ignore=shutil.ignore_patterns("finished", "cache"))
    header, *lines = (folder / "dev.tsv").read_text().splitlines()
    (folder / "dev.tsv").write_text("\n".join([header, *(line for line in lines if line.endswith("\tyes"))]) + "\n")
    with pytest.raises(InputError, match='auc is undefined on the dev pairs of "own": all labels are the same'):
        small_sweep.launched(folder, tmp_path / "work", overrides={"training.selection": "auc"})
    small_sweep.launched(folder, tmp_path / "work", dry_run=True)  # accuracy is defined on these pairs


@pytest.mark.parametrize(("split", "overrides"), [("dev", {}), ("test", {"training.best_on_test": "True"})])
def test_missing_required_split_is_refused(small_files, tmp_path, split, overrides):
    folder = shutil.copytree(
        small_files, tmp_path / "files", ignore=shutil.ignore_patterns(f"{split}.tsv", "finished", "cache")
    )
    with pytest.raises(InputError, match=f'"own" has no {split} pairs'):
        small_sweep.launched(folder, tmp_path / "work", overrides=overrides)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "TABLE = {1: 2}\ndef get_config(): return default_config()\n",
            "table of a Sweep cannot be {1: 2}: make it a TableLayout",
        ),
        ("def get_config(): return ConfigDict({'model': {'name': 're2'}})\n", "the config of the sweep lacks data"),
    ],
)
def test_invalid_config_file_error_names_the_file(tmp_path, text, problem):
    file = tmp_path / "mine.py"
    imports = "from ml_collections import ConfigDict\nfrom jaxmatch.config.settings import default_config\n"
    file.write_text(imports + text)
    with pytest.raises(InputError, match=problem) as caught:
        launch.resolve(file)
    assert caught.value.path == file


def test_missing_device_and_out_of_memory_are_reported(small_files, tmp_path, monkeypatch):
    def nothing(_):
        raise RuntimeError("Unable to initialize backend 'cuda'")

    with monkeypatch.context() as patch, pytest.raises(InputError, match="JAX finds no device.*set JAX_PLATFORMS=cpu"):
        patch.setattr(jax, "devices", nothing)
        small_sweep.launched(small_files, tmp_path / "work")
    assert not (tmp_path / "work").exists()

    def full(*_, **__):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes")

    def no_memory(*_, **__):
        raise MemoryError

    for where, fails in (("train", full), ("__init__", no_memory)):
        with monkeypatch.context() as patch, pytest.raises(InputError, match="cohort of 2 runs does not fit in memory"):
            patch.setattr(launch.Cohort, where, fails)
            small_sweep.launched(small_files, tmp_path / where)


def test_workdir_of_a_timing_is_refused(small_files, tmp_path):
    (tmp_path / "timing.json").write_text("{}")
    with pytest.raises(InputError, match="this folder holds another timing; give a --workdir of its own"):
        small_sweep.launched(small_files, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["timing.json"]
