"""Ensembles equal hand-computed votes and means, and the command finds the runs of each setting."""

import dataclasses
import json
import math

import numpy as np
import pytest
import saved_model
import small_records

import jaxmatch
from jaxmatch.analysis import ensemble
from jaxmatch.cli.main import main
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError
from jaxmatch.papers import re2
from jaxmatch.reporting import formats

TEXTS = [("a b c", "no d"), ("a", "a"), ("e d c b a no a b c d e", "new york"), ("unseen é", "c"), ("b", "b c")]


def test_vote_shares_order_by_votes_then_by_probability():
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(4), size=(5, 200))
    shares, summed = ensemble.vote_shares(probabilities), probabilities.sum(axis=0)
    votes = np.array([[np.sum(probabilities[:, pair].argmax(axis=1) == c) for c in range(4)] for pair in range(200)])
    assert any(len(set(row)) < 4 and row.max() < 5 for row in votes)
    for pair in range(200):
        by_hand = sorted(range(4), key=lambda c: (votes[pair, c], summed[pair, c]))
        assert np.argsort(shares[pair]).tolist() == by_hand


def _split(labels, **more):
    return Split(*zip(*TEXTS, strict=True), labels, **more)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """The folder of a sweep: a setting with three finished runs and a diverged run, and a setting with a single run."""
    folder, mine = tmp_path_factory.mktemp("workdir"), tmp_path_factory.mktemp("mine")
    labels = ["neutral", "entailment", "contradiction", "neutral", "neutral"]
    rows = ["\t".join((*pair, label)) for pair, label in zip(TEXTS, labels, strict=True)]
    (mine / "test.tsv").write_text("\n".join(["text_a\ttext_b\tlabel", *rows]) + "\n")
    config = {"data": {"name": "own", "directory": str(mine), "task": "classification"}}
    for setting, seed in [("x", 0), ("x", 1), ("x", 11), ("x", 2), ("y", 0)]:
        status = "diverged" if seed == 2 else "finished"
        run = folder / "runs" / f"{setting}-seed{seed}"
        run.mkdir(parents=True)
        record = small_records.record(seed=seed, status=status, run=run.name, overrides={"model.blocks": 1})
        (run / "record.json").write_text(json.dumps({**record, "data": {**record["data"], "name": "own"}}))
        if status == "finished":
            saved_model.save(run, params=saved_model.parameters(3, seed=seed), config=config)
    return folder, _split(labels)


def test_runs_are_scored_individually_and_as_an_ensemble(workdir):
    folder, split = workdir
    matchers = [jaxmatch.load(folder / "runs" / f"x-seed{seed}") for seed in (0, 1, 11)]
    scores = ensemble.ensemble(iter(matchers), split)
    assert scores.single == tuple(jaxmatch.evaluate(matcher, split) for matcher in matchers)
    # Computed by hand from the predictions of each run.
    predictions = [matcher.predict(TEXTS) for matcher in matchers]
    assert len({tuple(one.label for one in run) for run in predictions}) > 1  # the runs disagree somewhere
    voted = averaged = 0
    for pair, label in enumerate(split.labels):
        total = {name: sum(run[pair].probabilities[name] for run in predictions) for name in saved_model.LABELS}
        votes = [run[pair].label for run in predictions]
        voted += max(total, key=lambda name: (votes.count(name), total[name])) == label
        averaged += max(total, key=total.get) == label
    assert scores.vote["accuracy"] == pytest.approx(voted / 5)
    assert scores.average["accuracy"] == pytest.approx(averaged / 5)


def test_a_right_candidate_that_is_barely_first_stays_first(tmp_path, monkeypatch):
    matcher = jaxmatch.load(saved_model.save(tmp_path / "run", task="ranking", labels=("0", "1")))
    near = np.array([[0.0, 30.0], [0.0, 20.0], [0.0, -1.0], [0.0, -2.0], [0.0, -3.0]], np.float32)
    monkeypatch.setattr(type(matcher), "logits", lambda *_: near)
    scores = ensemble.ensemble([matcher] * 8, _split(["1", "0", "0", "0", "0"], groups=["q"] * 5))
    assert scores.single[0]["map"] == scores.vote["map"] == scores.average["map"] == 1.0


def test_regression_outputs_are_averaged_without_a_vote(tmp_path):
    options = dict(task="regression", labels=())
    matchers = [
        jaxmatch.load(saved_model.save(tmp_path / str(seed), params=saved_model.parameters(1, seed=seed), **options))
        for seed in (0, 1)
    ]
    labels = [1.0, 2.0, 3.0, 4.0, 0.0]
    scores = ensemble.ensemble(matchers, _split(labels))
    mean = (matchers[0].logits(TEXTS)[:, 0] + matchers[1].logits(TEXTS)[:, 0]) / 2
    assert scores.vote is None
    members = tuple(small_records.record(seed=seed) for seed in (0, 1))
    shown = formats.markdown(ensemble.sheet([ensemble.Ensemble(members, "test", 5, scores)]))
    assert "averaged number" in shown and "probability" not in shown and "votes" not in shown
    assert scores.average["pearson"] == pytest.approx(np.corrcoef(mean, labels)[0, 1], abs=1e-5)
    assert scores.average["mse"] == pytest.approx(np.mean((mean - labels) ** 2), rel=1e-5)


def test_incompatible_or_missing_runs_and_unknown_labels_are_errors(workdir, tmp_path):
    folder, split = workdir
    one = jaxmatch.load(folder / "runs" / "x-seed0")
    other = jaxmatch.load(saved_model.save(tmp_path / "run", labels=("no", "yes"), params=saved_model.parameters(2)))
    problem = r"must have the same task and labels: classification \(entailment, .*\) and classification \(no, yes\)"
    with pytest.raises(InputError, match=problem):
        ensemble.ensemble([one, other], split)
    with pytest.raises(InputError, match="label 'maybe' is not one of the model's"):
        ensemble.ensemble([one], _split(["maybe"] * 5))


def test_command_builds_an_ensemble_of_the_seeds_of_a_setting(workdir, capsys):
    folder, split = workdir
    assert main(["ensemble", str(folder), "--format", "json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)  # a single run is no ensemble
    assert result["runs"] == ["x-seed0", "x-seed1", "x-seed11"]
    assert (result["data"], result["pairs"], result["overrides"]) == ("own test", 5, {"model.blocks": 1})
    expected = ensemble.ensemble([jaxmatch.load(folder / "runs" / run) for run in result["runs"]], split)
    assert result["vote"] == pytest.approx(expected.vote)
    assert result["average"] == pytest.approx(expected.average)
    assert main(["ensemble", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "own test, 5 pairs." in text and "| blocks 1 |  3,000,003 | 3    | test accuracy (%) |" in text
    assert f"{100 * expected.vote['accuracy']:.1f} |" in text
    assert "over 3 seeds (0, 1, 11)" in text and "chosen on dev accuracy" in text and "(4,500 training" in text
    deviation = np.std([one["accuracy"] for one in expected.single], ddof=1)
    assert f" ± {100 * deviation:.1f} |" in text
    assert main(["ensemble", str(folder), "--format", "latex"]) == 0
    assert r"\toprule" in capsys.readouterr().out


def test_undefined_score_is_a_dash_or_null():
    """AUC is undefined if all pairs of a split have the same label."""
    scores = {"accuracy": 0.5, "auc": math.nan}
    members = tuple(small_records.record(seed=seed) for seed in (0, 1))
    found = ensemble.Ensemble(members, "test", 5, ensemble.EnsembleScores((scores, scores), scores, scores))
    for form, cells in ((formats.markdown, "– ± – | – | – |"), (formats.latex, r"-- $\pm$ -- & -- & --")):
        (line,) = (" ".join(line.split()) for line in form(ensemble.sheet([found])).splitlines() if "AUC" in line)
        assert cells in line
    values = found.as_json()
    assert values["vote"] == values["average"] == {"accuracy": 0.5, "auc": None}


def test_published_ensembles_are_listed_below_for_the_same_data_set(workdir, capsys):
    folder, _ = workdir
    rows = [dataclasses.asdict(row) for row in re2.published_ensembles("snli")]

    def table(data):
        shown = [{**row, "settings": {**row["settings"], "data.name": data}} for row in rows]
        layout = {"title": "t", "rows": [], "published": [], "ensembles": shown, "notes": ["something was changed"]}
        notes = {"name": "s", "layout": layout, "runs": [f"x-seed{seed}" for seed in (0, 1)]}
        (folder / "sweep.json").write_text(json.dumps(notes))
        try:
            assert main(["ensemble", str(folder)]) == 0
        finally:
            (folder / "sweep.json").unlink()
        return capsys.readouterr().out

    assert "DRCN" not in table("snli")  # published for another data set
    text = table("own")
    assert "- something was changed" in text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    below = {row[0]: (*row[1:4], row[-1]) for row in rows if row[-1] and row[0] != "setting" and "-" not in row[-1]}
    assert below["RE2 (ensemble by voting, paper, GloVe 840B)"] == ("22.4M", "8", "test accuracy (%)", "89.9")
    assert below["DRCN (ensemble)"] == ("53.3M", "", "test accuracy (%)", "90.1") and len(below) == 6
    assert "Table 1; 549,367 training pairs" in text


def test_command_reports_missing_runs_seeds_and_splits(workdir, tmp_path, capsys):
    folder, _ = workdir
    assert main(["ensemble", str(tmp_path)]) == 2
    assert "holds no runs of a sweep that have ended; give the --workdir of a sweep" in capsys.readouterr().err
    single_run = tmp_path / "runs" / "y-seed0"
    single_run.mkdir(parents=True)
    (single_run / "record.json").write_text((folder / "runs" / "y-seed0" / "record.json").read_text())
    assert main(["ensemble", str(tmp_path)]) == 2
    assert "no setting has 2 finished runs; resume the sweep, or train more seeds" in capsys.readouterr().err
    assert main(["ensemble", str(folder), "--split", "dev"]) == 2
    assert "has no dev file" in capsys.readouterr().err
