"""What the timing command measures and records. The times themselves depend on the machine."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from small_records import TIMING

from jaxmatch.cli.main import main
from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.data import text
from jaxmatch.errors import InputError
from jaxmatch.papers import re2, timing
from jaxmatch.papers.esan_csran import esan
from jaxmatch.papers.timing import times

SWEEPS = Path(__file__).parent.parent / "sweeps"


def random_matcher(name, model, *texts):
    settings = {"data.tokenizer": "whitespace", "data.vectors": "hashed"}
    config = with_overrides(default_config(name), settings | {f"model.{key}": value for key, value in model.items()})
    return timing.random_matcher(config, texts, ("x", "y"), "classification")


class Clock:
    """A stand-in for the `time` module: each prediction takes the next of the given seconds."""

    def __init__(self, seconds):
        self.seconds, self.now, self.calls = list(seconds), 0.0, 0

    def perf_counter(self):
        if self.calls % 2:  # the end of a prediction
            self.now += self.seconds[self.calls // 2]
        self.calls += 1
        return self.now


def test_warm_up_predictions_are_not_timed(monkeypatch):
    matcher = random_matcher("re2", {"hidden_size": 8, "blocks": 1}, "a b", "c")
    seen = []
    model = type(matcher.model)
    monkeypatch.setattr(
        model, "logits", lambda self, a, b, features: seen.append((a, b)) or np.zeros((8, 2), np.float32)
    )
    monkeypatch.setattr(timing, "time", Clock([9, 9, 9, 1, 2]))
    np.testing.assert_allclose(timing.batch_seconds(matcher.model, batches=2), [1, 2])
    assert len(seen) == 5 and all(side.shape == (8, 20) for sides in seen for side in sides)
    assert all(2 <= side.min() and side.max() < 5 for sides in seen for side in sides)  # words, no padding
    assert not np.array_equal(seen[3][0], seen[4][0])
    monkeypatch.setattr(timing, "time", Clock([9, 3, 2, 4]))
    monkeypatch.setattr(type(matcher), "predict", lambda self, pairs: seen.append(pairs))
    np.testing.assert_allclose(timing.split_seconds(matcher, [("a", "b")]), [3, 2, 4])
    assert seen[-4:] == [[("a", "b")]] * 4


def test_a_random_matcher_has_a_vocabulary_characters_and_features():
    try:
        text.tagger_files()
    except InputError as error:
        pytest.skip(str(error))
    model = {"hidden_size": 4, "characters": "cnn", "character_features": 3, "tags": True, "exact_match": True}
    matcher = random_matcher("esan", model, "b b a", "c")
    assert matcher.encoded([("a b", "z")]).sides == ([[3, 2]], [[5]])  # a new word, known by its characters
    assert matcher.model.characters[2, :2].tolist() == [ord("b"), 0]
    seconds = timing.batch_seconds(matcher.model, batches=2)
    assert seconds.shape == (2,) and (seconds > 0).all()


@pytest.mark.slow
def test_smoke_run_of_esan_timing_times_a_split(tmp_path):
    words = ["timing", str(SWEEPS / "esan_timing.py"), "--smoke", "--features", "none", "--workdir", str(tmp_path)]
    assert main(words) == 0
    rows = json.loads((tmp_path / "timing.json").read_text())["rows"]
    # The two sizes of ESAN are equal in a smoke run.
    found = [(row["model"], len(row["batch_seconds"]), row["split"]["pairs"]) for row in rows]
    assert found == [("ESAN", 3, 16), ("RE2", 3, 16)] and all(len(row["split"]["seconds"]) == 3 for row in rows)


def test_timing_launchers_use_the_settings_of_the_papers(capsys):
    plan = timing.resolve(SWEEPS / "re2_timing.py", options={"dataset": "wikiqa"})
    assert plan.batches == 100
    models = [dict(config.model) for config in plan.configs().values()]
    assert [(model["blocks"], model["encoder_layers"], model["prediction"]) for model in models[:3]] == [
        (blocks, 3, "simple") for blocks in (1, 2, 3)
    ]
    characters = {"bimpm": "bilstm", "cafe": "bilstm", "diin": "cnn", "csran": "bilstm"}
    assert {model["name"]: model["characters"] for model in models[3:]} == characters
    assert not any(model["tags"] or model["exact_match"] for model in models)
    options = {"dataset": "scitail", "models": "csran,re2", "features": "none"}
    other = timing.resolve(SWEEPS / "re2_timing.py", options=options)
    csran, *blocks = other.configs().values()
    assert [config.model.name for config in blocks] == ["re2"] * 3
    assert csran.model.characters == "none" and csran.model.stacked_layers == 5  # as in configs/csran.py for SciTail
    # The papers have times for each.
    assert {row.label for row in plan.sweep.table.published} >= set(plan.sweep.variants)
    seconds = [row.scores["times.batch_seconds"] for row in re2.PRINTED.rows("Table 5")]
    assert seconds[-3:] == ["0.03 ± 0.00", "0.04 ± 0.00", "0.05 ± 0.00"]
    assert [row.settings["parameters"] for row in esan.rows("Table 5")][:2] == ["3.9M", "109.5M"]
    assert main(["timing", str(SWEEPS / "esan_timing.py"), "--models=esan,csran", "--dry-run", "--batches", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("7 batches of 8 pairs of 20 tokens a sentence, and 4 passes over quora test")
    assert lines[1] == "  ESAN: 3,856,712 parameters" and lines[2].startswith("  CSRAN: ")


@pytest.mark.slow
def test_smoke_run_of_re2_timing_without_a_split_makes_table_and_figure(tmp_path, capsys):
    words = f"timing {SWEEPS / 're2_timing.py'} --smoke --split none --workdir {tmp_path}"
    assert main(words.split()) == 0
    rows = json.loads((tmp_path / "timing.json").read_text())["rows"]
    found = [(row["model"], row["settings"]["blocks"], len(row["batch_seconds"]), row["split"]) for row in rows]
    assert found == [("RE2 (1 block)", 1, 3, None), ("RE2 (2 blocks)", 2, 3, None)]
    assert "scores mean nothing" in capsys.readouterr().out
    assert main(["table", str(tmp_path), "--format", "csv"]) == 0
    assert capsys.readouterr().out == times(timing.read_times(tmp_path / "timing.json"), "csv")
    assert main(["figure", str(tmp_path), "--output", str(tmp_path)]) == 0
    assert (tmp_path / "timing.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["re2_timing.py", "--dataset", "snil"], 'there is no data set "snil" in this sweep; did you mean "snli"?'),
        (["re2_timing.py", "--grid.model.blocks=1,2"], "timing takes no --grid.model.blocks"),
        (
            ["re2_timing.py", "--models=re2", "--config.model.blocks=1"],
            "config.model.blocks would not reach RE2 (1 block) and",
        ),
        (["re2_timing.py", "--models", "re2,cafe2"], 'there is no model "cafe2" in this timing; did you mean "cafe"?'),
        (["re2_timing.py", "--data-directory", "/no/such"], "/no/such: data set "),
    ],
)
def test_invalid_options_are_reported_in_one_line(tmp_path, capsys, words, problem):
    assert main(["timing", str(SWEEPS / words[0]), *words[1:], "--workdir", str(tmp_path / "new")]) == 2
    errors = capsys.readouterr().err
    assert problem in errors and errors.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_timing_or_sweep_is_refused(tmp_path, capsys):
    words = ["timing", str(SWEEPS / "re2_timing.py"), "--split", "none", "--workdir", str(tmp_path)]
    (tmp_path / "timing.json").write_text(json.dumps(TIMING))
    assert main(words) == 2
    assert 'this folder holds another timing ("t"); give a --workdir of its own' in capsys.readouterr().err
    (tmp_path / "sweep.json").write_text("{}")
    assert main(words) == 2
    assert "this folder holds another sweep; give" in capsys.readouterr().err
    assert json.loads((tmp_path / "timing.json").read_text()) == TIMING


# --- the table


def test_markdown_timing_table_equals_hand_computed_values():
    text = times(TIMING, "markdown")
    lines = text.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0] == [
        "model",
        "measured: parameters",
        "measured: time (s/batch)",
        "measured: pairs/s",
        "published: parameters",
        "published: time (s/batch)",
    ]
    # Of 0.001 and 0.003 the mean is 0.002 and the deviation 0.001414; 1000 pairs in 0.5 s and 0.25 s are 2000 and 4000
    # a second.
    assert rows[2:] == [
        ["RE2 (1 block)", "1,234,567", "0.0020 ± 0.0014", "3,000 ± 1,414", "–", "0.03 ± 0.00"],
        ["ESAN", "99", "0.5000 ± 0.0000", "–", "–", "–"],
        ["BiMPM", "–", "–", "–", "–", "0.05 ± 0.00"],
    ]
    assert "of 2 batches of 8 pairs of 20 tokens a sentence" in text
    assert "the 1,000 of snli test, texts in and labels out, mean ± sample standard deviation of 2 passes." in text
    assert (
        "Published: Yang et al. (2019), Table 5." in text
        and "Device: 1 x cpu; jax 0.10; load before the run 0.1." in text
    )
    assert lines[-2:] == ["- a note", "- Command: jaxmatch timing x.py"]


def test_csv_and_latex_have_the_rows_of_the_table_and_json_the_record():
    heading, *rows = csv.reader(io.StringIO(times(TIMING, "csv")))
    assert heading[1:3] == ["measured: parameters", "measured: time (s/batch)"]
    assert rows[0] == ["RE2 (1 block)", "1,234,567", "0.0020 ± 0.0014", "3,000 ± 1,414", "–", "0.03 ± 0.00"]
    assert json.loads(times(TIMING, "json")) == TIMING
    latex = times(TIMING, "latex")
    assert "& measured: parameters &" in latex and r"0.0020 $\pm$ 0.0014" in latex


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({**TIMING, "format": 2}, "it is not a timing of format 1); run jaxmatch timing again"),
        ({key: value for key, value in TIMING.items() if key != "device"}, "the record is damaged ('device')"),
        ({**TIMING, "rows": [{"model": "RE2"}]}, "the record is damaged"),
    ],
)
def test_invalid_timing_record_is_refused(tmp_path, capsys, record, problem):
    (tmp_path / "timing.json").write_text(json.dumps(record))
    assert main(["table", str(tmp_path)]) == 2
    assert problem in capsys.readouterr().err
