"""`inspect`, `occlusion` and `figure` print the results of the analyses, and save the data of each figure."""

import json
import math

import numpy as np
import pytest
import saved_model
import small_records

import jaxmatch
from jaxmatch.analysis import attention, occlusion
from jaxmatch.cli.main import main
from jaxmatch.data import own
from jaxmatch.reporting import figures

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


@pytest.mark.parametrize("pair", [("a", " "), ("a\udcff", "b")])
def test_inspect_reports_an_invalid_pair_in_one_line(run, capsys, pair):
    assert main(["inspect", str(run), "--pair", *pair]) == 2
    err = capsys.readouterr().err
    assert "the text is empty or not UTF-8" in err and err.count("\n") == 1


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


def test_occlusion_of_a_sweep_averages_over_the_seeds_of_each_setting(run, tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "images", lambda data, dark: drawn.append(data["kind"]) or {})
    config = jaxmatch.load(run).config
    split = own.read(own_data_of(run) / "dev.tsv", "classification", saved_model.LABELS)
    single = []
    for name, seed, model in (("x", 0, "re2"), ("x", 1, "re2"), ("y", 0, "esan")):
        folder = tmp_path / "sweep" / "runs" / f"{name}-seed{seed}"
        saved_model.save(folder, config=config, params=saved_model.parameters(3, seed=seed))
        record = small_records.record(
            seed=seed, run=folder.name, overrides={"blocks": 1}, config={"model": {"name": model}}
        )
        (folder / "record.json").write_text(json.dumps(record))
        single.append(occlusion.occlusion(jaxmatch.load(folder), split))
    assert main(["occlusion", str(tmp_path / "sweep"), "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "**Occlusion sensitivity, blocks 1.**" in out and drawn == ["occlusion"]
    assert "Mean ± sample standard deviation over 2 seeds (0, 1). Checkpoint chosen on dev accuracy." in out
    kept = json.loads((tmp_path / "occlusion.json").read_text())  # only RE2: ESAN has no such features
    assert (kept["runs"], kept["seeds"], kept["setting"]) == (["x-seed0", "x-seed1"], [0, 1], "blocks 1")
    values = np.array([single[0].change[0, 2, 0], single[1].change[0, 2, 0]])
    assert kept["change"][0][2][0] == pytest.approx(values.mean())
    assert kept["change_deviation"][0][2][0] == pytest.approx(values.std(ddof=1))
    last = [cell.strip() for cell in out.partition("\n\n")[0].splitlines()[-1].strip("|").split("|")]
    assert last[:3] == ["1", "contextual", f"{100 * values.mean():+.1f} ± {100 * values.std(ddof=1):.1f}"]
    assert main(["occlusion", str(tmp_path / "sweep"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [kept]


def test_inspect_of_a_sweep_shows_each_finished_run(run, tmp_path, capsys):
    folder = tmp_path / "sweep"
    for seed, status in ((0, "finished"), (1, "finished"), (2, "diverged")):
        one = folder / "runs" / f"x-seed{seed}"
        saved_model.save(one, config=jaxmatch.load(run).config, params=saved_model.parameters(3, seed=seed))
        (one / "record.json").write_text(json.dumps(small_records.record(seed=seed, run=one.name, status=status)))
    assert main(["inspect", str(folder), "--pair", "a b", "no d", "--output", str(tmp_path / "drawn")]) == 0
    text = capsys.readouterr().out
    parts = [part for part in text.split("run:    ") if part]
    assert [part.splitlines()[0] for part in parts] == ["x-seed0", "x-seed1"]
    assert main(["inspect", str(folder / "runs" / "x-seed1"), "--pair", "a b", "no d"]) == 0
    assert capsys.readouterr().out.strip() == parts[1].partition("\n")[2].strip()
    endings = [f"attention-seed{seed}.{ending}" for seed in (0, 1) for ending in ("json", "png", "svg")]
    assert sorted(file.name for file in (tmp_path / "drawn").iterdir()) == endings


def own_data_of(run):
    """Returns the data folder of a run."""
    return type(run)(jaxmatch.load(run).config["data"]["directory"])


def test_figure_draws_the_learning_curves_of_a_sweep(tmp_path, capsys):
    for seed, scores in enumerate([(0.5, 0.7), (0.3, 0.7)]):
        run = tmp_path / "sweep" / "runs" / f"x-seed{seed}"
        run.mkdir(parents=True)
        curve = [
            {"samples": 10 * step, "train_loss": 1.0, "dev": {"mrr": score}}
            for step, score in enumerate(scores, start=1)
        ]
        record = small_records.record(
            run=run.name, seed=seed, overrides={"blocks": 2}, selected_on="dev.mrr", curve=curve
        )
        (run / "record.json").write_text(json.dumps(record))
    assert main(["figure", str(tmp_path / "sweep"), "--output", str(tmp_path / "drawn")]) == 0
    assert capsys.readouterr().out.split() == [f"{tmp_path}/drawn/curves.{ending}" for ending in ("json", "svg", "png")]
    (setting,) = json.loads((tmp_path / "drawn" / "curves.json").read_text())["curves"]
    deviation = pytest.approx(math.sqrt(0.02))
    assert setting["points"][0] == {"value": 10, "mean": 0.4, "deviation": deviation, "seeds": [0, 1]}
    assert (tmp_path / "drawn" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_figure_draws_a_score_against_a_setting_of_the_grid(tmp_path, capsys):
    for depth, variant, accuracy in ((1, "CSRAN", 0.8), (2, "CSRAN", 0.9), (1, "stacked model", 0.7)):
        run = tmp_path / "depth" / "runs" / f"{variant[0]}{depth}-seed0"
        run.mkdir(parents=True)
        record = small_records.record(
            run=run.name,
            seed=0,
            variant=variant,
            overrides={"model.stacked_layers": depth},
            dev={"accuracy": accuracy},
            test={"accuracy": 0.5},
        )
        (run / "record.json").write_text(json.dumps(record))
    words = ["figure", str(tmp_path / "depth"), "--output", str(tmp_path)]
    assert main([*words, "--against", "stacked_layers"]) == 0
    assert capsys.readouterr().out.split() == [f"{tmp_path}/stacked_layers.{end}" for end in ("json", "svg", "png")]
    curves = json.loads((tmp_path / "stacked_layers.json").read_text())["curves"]
    assert [(curve["name"], [point["mean"] for point in curve["points"]]) for curve in curves] == [
        ("CSRAN", [0.8, 0.9]),
        ("stacked model", [0.7]),
    ]
    assert main([*words, "--score", "test.accuracy"]) == 2
    assert "--score needs --against SETTING" in capsys.readouterr().err
    assert main([*words[:2], *words[1:]]) == 2
    assert "several folders share a figure only with --against SETTING" in capsys.readouterr().err
