"""Extensions from a file outside the package work in every command."""

import json

import numpy as np
import pytest
import small_sweep
from small_cohort import make_cohort
from test_docs import ROOT, fenced

from jaxmatch import extend
from jaxmatch.cli.main import main
from jaxmatch.config import models as settings_of_models
from jaxmatch.config.models import RE2Config
from jaxmatch.config.settings import Score, default_config, with_overrides
from jaxmatch.data import encoding
from jaxmatch.data.catalog import Source
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError
from jaxmatch.models import MODELS
from jaxmatch.sweep import launch
from jaxmatch.sweep.plan import make_plan
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.training import scores

SOURCE = "\n".join(fenced(ROOT / "docs" / "how_to" / "extend.md", "python"))


pytestmark = pytest.mark.usefixtures("restored_registries")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_extensions.py"
    path.write_text(SOURCE)
    return path


def test_extensions_from_a_file_work_in_every_command(file, tmp_path, capsys):
    files = small_sweep.write_files(tmp_path / "files")
    (files / "bars").mkdir()
    for split in ("train", "dev", "test"):
        lines = (files / f"{split}.tsv").read_text().splitlines()[1:]
        (files / "bars" / f"{split}.txt").write_text("".join(line.replace("\t", "|") + "\n" for line in lines))
    extended = ["--import", str(file)]
    changes = {"model.name": "mean", "model.hidden_size": 8, "data.name": "bars", "training.selection": "confidence"}
    words = [f"--config.{name}={value}" for name, value in changes.items()]
    grid = "--grid.optimizer.label_smoothing=0,0.5"
    rates = "--grid.optimizer.learning_rate=0.01"
    command = small_sweep.command(files, tmp_path / "out", *words, grid, rates)
    assert main([*command, *extended]) == 0
    records = small_sweep.records(tmp_path / "out")
    assert len(records) == 2
    for record in records.values():
        assert 0 < record["test"]["confidence"] < 1
        assert record["selected_on"] == "dev.confidence"
        assert record["config"]["model"]["name"] == "mean"
    smoothed = {each["config"]["optimizer"]["label_smoothing"]: each["test"]["confidence"] for each in records.values()}
    assert smoothed[0.5] != smoothed[0.0]

    run = str(tmp_path / "out" / "runs" / next(iter(records)))
    data = ["--data-directory", str(files)]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("text_a\ttext_b\nba bo\tbo da\n")
    capsys.readouterr()
    assert main(["evaluate", run, *data, "--format", "json", *extended]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["confidence"] == pytest.approx(
        records[next(iter(records))]["test"]["confidence"], abs=1e-5
    )
    assert main([f"--import={file}", "predict", run, "--input", str(pairs), "--output", str(tmp_path / "o.jsonl")]) == 0
    assert json.loads((tmp_path / "o.jsonl").read_text())["label"] in ("no", "yes")
    assert main(["table", str(tmp_path / "out"), *extended]) == 0
    assert main(["report", str(tmp_path / "out"), *extended]) == 0
    assert main(["data", "check", "bars", *data, "--vectors", str(files / "vectors.txt"), *extended]) == 0
    assert main(["inspect", run, "--pair", "ba bo", "bo da", *extended]) == 0
    assert "align" in capsys.readouterr().out


def test_user_defined_model_without_its_file_is_a_one_line_error(file, tmp_path, capsys):
    extend.load([str(file)])
    from saved_model import parameters, save

    settings = {"name": "mean", "hidden_size": 4}
    run = save(tmp_path / "run", model_settings=settings, params=parameters(3, settings=settings))
    settings_of_models.MODELS.pop("mean")
    assert main(["evaluate", str(run)]) == 2
    assert "there is no model 'mean'" in (message := capsys.readouterr().err)
    assert "--import FILE loads one of your own" in message and message.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("config.training.selection=confidence", "training.selection is 'confidence'"),
        ("config.optimizer.label_smoothing=0.1", 'there is no setting "config.optimizer.label_smoothing"'),
    ],
)
def test_name_of_a_file_that_is_not_imported_is_a_one_line_error(small_files, tmp_path, capsys, name, problem):
    assert main([*small_sweep.command(small_files, tmp_path, f"--{name}"), "--dry-run"]) == 2
    assert problem in (message := capsys.readouterr().err)
    assert "--import FILE loads one of your own" in message and message.count("\n") == 1


def test_checkpoints_may_be_chosen_by_a_score_that_constant_predictions_do_not_have(small_files):
    def spread(labels, outputs):
        values = outputs.std(axis=(1, 2))
        return np.where(values > 0, values, np.nan)

    extend.add_score(Score("spread", "spread"), spread, "classification")
    changes = small_sweep.overrides(small_files) | {"training.selection": "spread"}
    plan = make_plan(launch.resolve(small_files / "small.py", overrides=changes))
    assert {run.config.training.selection for run, _ in plan.runs.values()} == {"spread"}


def test_added_hyperparameter_at_its_default_keeps_run_names():
    def names(**changes):
        (run,) = Sweep(name="s", config=with_overrides(default_config(), changes)).runs()
        return run.identity("data")

    before = names()
    extend.add_hyperparameter("strength", 0.25, "of something", lambda each, outputs, labels, value: each)
    assert default_config().optimizer.strength == 0.25
    assert names() == before
    assert names(**{"optimizer.strength": 0.5}) != before


def test_redefined_hyperparameter_compiles_a_new_program():
    """This happens in a notebook, where a function is corrected and added again."""

    def compiled():
        return make_cohort().chunks.programs

    before = compiled()
    extend.add_hyperparameter("strength", 0.25, "of something", lambda each, outputs, labels, value: each)
    first = compiled()
    assert first is compiled() and first is not before
    extend.add_hyperparameter("strength", 0.25, "of something", lambda each, outputs, labels, value: 2 * each)
    assert compiled() is not first


def test_changed_reader_of_an_added_data_set_changes_its_fingerprint(tmp_path):
    (tmp_path / "mine").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "mine" / f"{split}.txt").write_text("a b|a c|0\nd e|d f|1\n")

    def prepared(flipped, labels=("0", "1")):
        def read(path):
            first, second, classes = zip(*(line.split("|") for line in path.read_text().splitlines()), strict=True)
            return Split(first, second, [str(1 - int(each)) for each in classes] if flipped else classes)

        files = {"train": ("train.txt",), "dev": ("dev.txt",), "test": ()}
        extend.add_data_set(Source("mine", "classification", labels, "mine", files, read, "accuracy"))
        settings = encoding.DataSettings(name="mine", directory=str(tmp_path), vectors="hashed")
        return encoding.prepare(settings, tmp_path / "cache")

    first, again, flipped, renamed = prepared(False), prepared(False), prepared(True), prepared(False, ("1", "0"))
    assert first.fingerprint == again.fingerprint
    assert len({each.fingerprint for each in (first, flipped, renamed)}) == 3
    assert first.splits["train"].labels.tolist() == [0, 1] and flipped.splits["train"].labels.tolist() == [1, 0]


def test_built_in_names_cannot_be_replaced_but_user_defined_scores_can():
    with pytest.raises(InputError, match='there is a score "f1" already'):
        extend.add_score(Score("f1", "F1"), lambda labels, outputs: 0, "ranking")
    with pytest.raises(InputError, match='there is a setting of the optimizer "dropout_rate" already'):
        extend.add_hyperparameter("dropout_rate", 0.0, "", lambda each, *_: each)
    with pytest.raises(InputError, match='there is a model "re2" already'):
        extend.add_model(RE2Config, MODELS["re2"])
    with pytest.raises(InputError, match="there is no task 'sorting'"):
        extend.add_score(Score("best", "best"), lambda labels, outputs: 0, "sorting")
    for value in (1.0, 2.0):  # like a notebook cell that runs twice
        extend.add_score(Score("best", "best"), lambda labels, outputs: outputs[:, 0] * 0 + value, "regression")
    found = scores.scores_of_runs("regression", [0.0, 1.0], [[0.0, 1.0]], label_names=())
    assert found[0]["best"] == 2.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken.py", "broken.py:2: the file fails with ZeroDivisionError"),
        ("a_broken_module", "a_broken_module: the file fails with ZeroDivisionError"),
    ],
)
def test_failed_import_prints_a_one_line_error(name, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "a_broken_module.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["data", "check", "embedded_inference", "--import", name]) == 2
    assert message in (error := capsys.readouterr().err) and error.count("\n") == 1
