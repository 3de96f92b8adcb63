"""Errors of a launch, most of them raised before training or writing. Each is one line that suggests a fix."""

import dataclasses
import shutil

import jax
import pytest
import small_sweep

from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.sweep import execute, launch
from jaxmatch.sweep.plan import make_plan


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


@pytest.mark.parametrize(
    ("written", "wrong", "problem"),
    [
        (
            'rows=("optimizer.learning_rate",)',
            'rows=("optimiser.learning_rate",)',
            'not a setting of its runs; did you mean "optimizer.l',
        ),
        ('"test.accuracy")', '"test.acuracy")', "asks for 'test.acuracy', which no run has; did you mean \"accuracy\""),
        ('"test.accuracy")', '"best.accuracy")', "which is not a score; use one of dev.NAME"),
        (
            'rows=("optimizer.learning_rate",)',
            'rows=(), original={"model.blocks": 1}',
            "original is named by 'model.blocks', which labels",
        ),
    ],
)
def test_table_layout_that_matches_no_run_is_refused_before_training(small_files, tmp_path, written, wrong, problem):
    file = tmp_path / "mine.py"
    assert written in small_sweep.SWEEP
    file.write_text(small_sweep.SWEEP.replace(written, wrong))
    with pytest.raises(InputError, match=problem):
        launch.sweep(
            file, workdir=tmp_path / "work", overrides=small_sweep.overrides(small_files), display=small_sweep.Watcher()
        )
    assert not (tmp_path / "work").exists()


def test_undefined_selection_score_on_dev_is_refused(small_files, tmp_path):
    folder = shutil.copytree(small_files, tmp_path / "files", ignore=shutil.ignore_patterns("finished", "cache"))
    header, *lines = (folder / "dev.tsv").read_text().splitlines()
    (folder / "dev.tsv").write_text("\n".join([header, *(line for line in lines if line.endswith("\tyes"))]) + "\n")
    with pytest.raises(InputError, match='auc is undefined on the dev pairs of "own": all labels are the same'):
        small_sweep.launched(folder, tmp_path / "work", overrides={"training.selection": "auc"})
    small_sweep.launched(folder, tmp_path / "work", dry_run=True)  # accuracy is defined on these pairs


def test_workdir_of_a_timing_is_refused(small_files, tmp_path):
    write_json(tmp_path / "timing.json", {})
    with pytest.raises(InputError, match="this folder holds another timing; give a --workdir of its own"):
        small_sweep.launched(small_files, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["timing.json"]


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
            patch.setattr(execute.Cohort, where, fails)
            small_sweep.launched(small_files, tmp_path / where)
