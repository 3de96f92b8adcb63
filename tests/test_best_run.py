"""Of a sweep, commands and `load` take the run with the best dev score, and name it."""

import json
import shutil

import pytest
import saved_model
import small_records
from saved_model import TEXTS, write_tsv

import jaxmatch
from jaxmatch.cli.main import main

SCORES = {"first-seed0": 0.7, "second-seed0": 0.9, "third-seed0": 0.8}


@pytest.fixture
def sweep(tmp_path):
    """The folder of a sweep with three runs, each with its own model, and a run that diverged."""
    for seed, (run, accuracy) in enumerate(SCORES.items()):
        folder = saved_model.save(tmp_path / "runs" / run, params=saved_model.parameters(3, seed))
        _write(folder, run=run, dev={"accuracy": accuracy})
    _write(tmp_path / "runs" / "fourth-seed0", run="fourth-seed0", status="diverged")
    return tmp_path


def _write(folder, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "record.json").write_text(json.dumps(small_records.record(**changes)))


@pytest.mark.parametrize("best", [["--best"], []])
def test_predict_uses_the_best_run_and_names_it_on_standard_error(sweep, capsysbinary, best):
    pairs = write_tsv(sweep / "in.tsv", TEXTS)
    assert main(["predict", str(sweep), *best, "--input", str(pairs)]) == 0
    out, err = capsysbinary.readouterr()
    labels = [prediction.label for prediction in jaxmatch.load(sweep / "runs" / "second-seed0").predict(TEXTS)]
    assert [json.loads(line)["label"] for line in out.splitlines()] == labels
    assert err.decode().startswith("note: second-seed0 (blocks 1, learning rate 0.001, seed 1) is the")
    assert err.endswith(b"best of 3 runs by dev accuracy, 0.9000\n")


def test_load_takes_the_best_run_of_a_sweep_and_says_which(sweep, capsys):
    matcher = jaxmatch.load(sweep)
    assert capsys.readouterr().err.startswith("note: second-seed0 (")
    assert repr(matcher) == (
        f"Matcher(re2; {sweep / 'runs' / 'second-seed0'}; labels entailment, neutral, contradiction; 12 words; "
        "dev accuracy 0.9000)"
    )
    best = jaxmatch.load(sweep / "runs" / "second-seed0" / "model")
    assert capsys.readouterr().err == "" and repr(best) == repr(matcher)
    assert matcher.predict(TEXTS) == best.predict(TEXTS) != jaxmatch.load(sweep / "runs" / "first-seed0").predict(TEXTS)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"data": small_records.record()["data"] | {"name": "snli"}}, "the runs differ in data: sick, snli"),
        ({"selected_on": "dev.mrr", "dev": {"mrr": 0.4}}, "the runs differ in scores: dev.accuracy, dev.mrr"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(sweep, capsys, changes, problem):
    _write(sweep / "runs" / "third-seed0", run="third-seed0", **changes)
    assert main(["predict", str(sweep), "--best", "--input", "in.tsv"]) == 2
    assert capsys.readouterr().err == (
        f"jaxmatch: no run is the best on dev: {problem}; name a run: WORKDIR/runs/NAME\n"
    )


def test_a_folder_without_a_finished_run_is_refused(sweep, capsys):
    for run in SCORES:
        shutil.rmtree(sweep / "runs" / run)
    assert main(["evaluate", str(sweep), "--best"]) == 2
    assert "no run has finished with a score of dev; name a run" in capsys.readouterr().err
    for folder in (sweep / "runs" / "fourth-seed0", sweep / "runs"):
        assert main(["evaluate", str(folder), "--best"]) == 2
        assert "holds no runs of a sweep that have ended; give the --workdir" in capsys.readouterr().err
