"""`inspect`, `occlusion` and `figure` print the results of the analyses, and save the data of each figure."""

import json
from pathlib import Path

import numpy as np
import pytest
import saved_model
import small_records

import jaxmatch
from jaxmatch.analysis import attention, occlusion
from jaxmatch.cli.main import main
from jaxmatch.data import own
from jaxmatch.reporting import figures
from jaxmatch.reporting.records import records_of

ROWS = [
    ("a b c", "no d", "neutral"),
    ("a", "a", "entailment"),
    ("e d c", "new york", "contradiction"),
    ("unseen é", "c", "neutral"),
    ("b", "b c", "entailment"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    (folder / "dev.tsv").write_text("".join("\t".join(row) + "\n" for row in [("text_a", "text_b", "label"), *ROWS]))
    config = {"data": {"name": "own", "directory": str(folder), "task": "classification"}, "model": {"name": "re2"}}
    return saved_model.save(tmp_path_factory.mktemp("workdir") / "runs" / "some-seed1", config=config)


def test_inspect_prints_the_attention_weights_of_each_token(run, capsys):
    assert main(["inspect", str(run), "--pair", "a b C", "no d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (expected,) = attention.attention(jaxmatch.load(run), [("a b C", "no d")])
    assert lines[:2] == ["first:  a b C", "second: no d"]
    label = expected.prediction.label
    assert lines[2].startswith(f"answer: {label} (entailment ")
    assert f"{label} {expected.prediction.probabilities[label]:.3f}" in lines[2]
    row = expected.blocks[0].over_b[1]
    most = int(row.argmax())
    expected_weights = f"{('no', 'd')[most]} {row[most]:.2f}, {('no', 'd')[1 - most]} {row[1 - most]:.2f}"
    assert lines[4:7] == ["block 1, first over second", lines[5], f"  b  {expected_weights}"]
    assert lines[8] == "block 1, second over first"
    assert [line.split()[0] for line in lines[9:]] == ["no", "d"]
    assert float(lines[9].split()[2].rstrip(",")) == pytest.approx(expected.blocks[0].over_a[:, 0].max(), abs=0.006)


def test_inspect_uses_the_papers_pair_by_default_and_saves_its_weights(run, tmp_path, capsys):
    assert main(["inspect", str(run), "--format", "json", "--output", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["text_a"], printed["text_b"]) == attention.PAPERS_PAIRS["re2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.json", "attention.png", "attention.svg"]
    assert json.loads((tmp_path / "attention.json").read_text()) == printed
    before = (tmp_path / "attention.svg").read_bytes()
    assert main(["figure", str(tmp_path / "attention.json"), "--output", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "attention.svg").read_bytes() == before
    assert capsys.readouterr().out.splitlines() == [f"{tmp_path}/again/attention.{ending}" for ending in ("svg", "png")]


def test_inspect_prints_the_score_of_a_regression(tmp_path, capsys):
    run = saved_model.save(tmp_path / "run", task="regression", labels=())
    assert main(["inspect", str(run), "--pair", "a", "b"]) == 0
    assert f"answer: {jaxmatch.load(run).predict([('a', 'b')])[0].score:.4f}\n" in capsys.readouterr().out


def test_occlusion_prints_and_saves_the_accuracy_changes(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(figures, "images", lambda *_: {})  # drawing is tested elsewhere
    split = own.read(own_data_of(run) / "dev.tsv", "classification", saved_model.LABELS)
    expected = occlusion.occlusion(jaxmatch.load(run), split)
    assert main(["occlusion", str(run), "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "own dev (2 entailment, 2 neutral, 1 contradiction pairs)." in out
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line.startswith("|")]
    assert rows[0] == ["block", "masked", *saved_model.LABELS]
    assert rows[2] == ["–", "nothing", *(f"{100 * share:.1f}" for share in expected.accuracy)]
    assert rows[3] == ["1", "embedding", *(f"{100 * change:+.1f}" for change in expected.change[0, 0])]
    assert rows[4] == ["1", "residual", "–", "–", "–"]
    kept = json.loads((tmp_path / "occlusion.json").read_text())
    assert (kept["data"], kept["run"]) == ("own dev", "some-seed1")
    np.testing.assert_allclose(np.array(kept["change"], float), expected.change)
    assert main(["occlusion", str(run), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == kept


@pytest.fixture(scope="module")
def sweep(run, tmp_path_factory):
    """The folder of a sweep: two runs of RE2 that finished and one that diverged, and a run of another model."""
    folder = tmp_path_factory.mktemp("sweep")
    for name, seed, model in (("x", 0, "re2"), ("x", 1, "re2"), ("x", 2, "re2"), ("y", 0, "esan")):
        one = folder / "runs" / f"{name}-seed{seed}"
        saved_model.save(one, config=jaxmatch.load(run).config, params=saved_model.parameters(3, seed=seed))
        about = {"run": one.name, "overrides": {"blocks": 1}, "config": {"model": {"name": model}}}
        record = small_records.record(seed=seed, status="diverged" if seed == 2 else "finished", **about)
        (one / "record.json").write_text(json.dumps(record))
    return folder


def test_occlusion_of_a_sweep_averages_over_the_seeds_of_each_setting(run, sweep, tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "images", lambda data, dark: drawn.append(data["kind"]) or {})
    split = own.read(own_data_of(run) / "dev.tsv", "classification", saved_model.LABELS)
    values = [
        occlusion.occlusion(jaxmatch.load(sweep / "runs" / f"x-seed{seed}"), split).change[0, 2, 0] for seed in (0, 1)
    ]
    assert main(["occlusion", str(sweep), "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "**Occlusion sensitivity, blocks 1.**" in out and drawn == ["occlusion"]
    assert "Mean ± sample standard deviation over 2 seeds (0, 1). Checkpoint chosen on dev accuracy." in out
    kept = json.loads((tmp_path / "occlusion.json").read_text())  # only RE2: ESAN has no such features
    assert (kept["runs"], kept["seeds"], kept["setting"]) == (["x-seed0", "x-seed1"], [0, 1], "blocks 1")
    mean, deviation = np.mean(values), np.std(values, ddof=1)
    assert kept["change"][0][2][0] == pytest.approx(mean)
    assert kept["change_deviation"][0][2][0] == pytest.approx(deviation)
    last = [cell.strip() for cell in out.partition("\n\n")[0].splitlines()[-1].strip("|").split("|")]
    assert last[:3] == ["1", "contextual", f"{100 * mean:+.1f} ± {100 * deviation:.1f}"]
    assert main(["occlusion", str(sweep), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [kept]


def test_inspect_of_a_sweep_shows_each_finished_run(sweep, tmp_path, capsys):
    assert main(["inspect", str(sweep), "--pair", "a b", "no d", "--output", str(tmp_path)]) == 0
    parts = [part for part in capsys.readouterr().out.split("run:    ") if part]
    assert [part.splitlines()[0] for part in parts] == ["x-seed0", "x-seed1", "y-seed0"]
    assert main(["inspect", str(sweep / "runs" / "x-seed1"), "--pair", "a b", "no d"]) == 0
    assert capsys.readouterr().out.strip() == parts[1].partition("\n")[2].strip()
    names = [f"attention-{part.splitlines()[0]}.{ending}" for part in parts for ending in ("json", "png", "svg")]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def own_data_of(run):
    """Returns the data folder of a run."""
    return type(run)(jaxmatch.load(run).config["data"]["directory"])


def test_figure_draws_curves_and_a_score_against_a_setting(tmp_path, capsys):
    folder = Path(__file__).parent.parent / "results" / "quickstart"
    words, records, score = ["figure", str(folder), "--output", str(tmp_path)], records_of(folder), "test.accuracy"
    for more, name, values in (
        ([], "curves", figures.curves(records)),
        (["--against", "blocks", "--score", score], "blocks", figures.scores_against(records, "blocks", score)),
    ):
        assert main([*words, *more]) == 0
        assert capsys.readouterr().out.split() == [f"{tmp_path}/{name}.{ending}" for ending in ("json", "svg", "png")]
        assert json.loads((tmp_path / f"{name}.json").read_text()) == json.loads(json.dumps(values))
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for wrong in ([*words, "--score", score], [*words[:2], *words[1:]]):
        assert main(wrong) == 2
        assert "--score and several sources need --against SETTING" in capsys.readouterr().err
