"""Baselines of a sweep: the baselines that it may request, their rows in the table, and the file that stores them."""

import csv
import dataclasses
import io
import json
import sys
import types
from pathlib import Path

import pytest
from small_records import cells, record

from jaxmatch.baselines import BASELINES, named_baselines
from jaxmatch.cli.main import main
from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import BaselineRow, Published, TableLayout
from jaxmatch.reporting.records import read_baselines, read_sweep_folder
from jaxmatch.reporting.table import make_table
from jaxmatch.sweep import launch
from jaxmatch.sweep.launch import keep_baselines

SWEEPS = Path(__file__).parent.parent / "sweeps"
COMPARISON = SWEEPS / "comparison.py"
LAYOUT = TableLayout("t", ("variant",), scores=("dev.accuracy", "test.accuracy", "times.train_seconds"))
BASELINE = BaselineRow("word overlap", 1234, {"dev.accuracy": 0.95, "times.train_seconds": 0.26})


def variants():
    accuracies = {"RE2": 0.81, "ESAN": 0.84}
    return [
        record(seed=seed, variant=name, dev={"accuracy": accuracy + seed / 1000})
        for name, accuracy in accuracies.items()
        for seed in (1, 2)
    ]


def test_baselines_are_rows_below_the_runs_and_are_not_marked_best():
    table = make_table(variants(), LAYOUT, (BASELINE,))
    heading, *rows = cells(table)
    assert heading[:3] == ["variant", "parameters", "seeds"]
    assert rows[-1] == ["word overlap", "1,234", "", "95.0", "", "0.3"]
    assert [row[3].startswith("**") for row in rows] == [True, False, False]
    assert "over 2 seeds (1, 2)." in table.markdown() and "Baselines (word overlap): fitted once" in table.markdown()
    assert cells(make_table(variants(), LAYOUT)) == [heading, *rows[:-1]]
    published = Published("A paper", {"test.accuracy": "88.0"}, "S")
    beside = cells(make_table(variants(), dataclasses.replace(LAYOUT, published=(published,)), (BASELINE,)))
    assert [row[0] for row in beside] == ["model", "RE2", "RE2", "baseline", "A paper"]
    only = [each for each in variants() if each["variant"] == "RE2"]
    unnamed = cells(make_table(only, dataclasses.replace(LAYOUT, rows=()), (BASELINE,)))
    assert [row[:2] for row in unnamed[1:]] == [["RE2", unnamed[1][1]], ["word overlap", "1,234"]]
    assert unnamed[0][0] == "model" and len({len(row) for row in unnamed}) == 1


def test_baselines_are_included_in_csv_json_and_latex_tables():
    table = make_table(variants(), LAYOUT, (BASELINE,))
    *_, line = csv.DictReader(io.StringIO(table.csv()))
    assert (line["variant"], line["parameters"], line["finished"]) == ("word overlap", "1234", "")
    assert (line["dev.accuracy.mean"], line["dev.accuracy.std"], line["test.accuracy.mean"]) == ("0.95", "", "")
    assert json.loads(table.json())["rows"][-1]["times.train_seconds.mean"] == 0.26
    kinds = table.dataframe().dtypes.astype(str)
    assert {*kinds[["parameters", "finished"]]} == {"Int64"}
    assert {*kinds[["dev.accuracy.mean", "test.accuracy.std"]]} == {"float64"}
    assert r"word overlap & 1,234" in table.latex()


def test_a_sweep_over_several_data_sets_has_no_baselines(tmp_path):
    write_baselines(tmp_path)  # the baselines of an earlier launch over one data set
    messages = []
    plan = plan_of({"data.name": "embedded_inference"}, {"data.name": "embedded_paraphrase"})
    keep_baselines(plan, types.SimpleNamespace(path=tmp_path), types.SimpleNamespace(say=messages.append))
    assert messages == ["the runs are of several data sets: the table has no baselines"]
    assert read_baselines(tmp_path) == {}


def plan_of(*settings):
    """Returns a plan with baselines and one run for each of the settings of ESAN, whose data have different names."""
    configs = [with_overrides(default_config("esan"), each) for each in settings]
    data = [types.SimpleNamespace(fingerprint=name, task="classification") for name in "fghi"[: len(configs)]]
    cohorts = [types.SimpleNamespace(data=each) for each in data]
    sweep = types.SimpleNamespace(baselines=("overlap",))
    pairs = zip(configs, cohorts, strict=True)
    runs = {str(number): (types.SimpleNamespace(config=one), each) for number, (one, each) in enumerate(pairs)}
    return types.SimpleNamespace(sweep=sweep, runs=runs)


def test_models_with_other_features_of_words_share_baselines(tmp_path):
    write_baselines(tmp_path)
    file = tmp_path / "baselines.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "asked": ["overlap"]}))
    data, messages = {"data.name": "embedded_inference"}, []
    features = [{}, {"model.exact_match": True}, {"model.characters": "cnn", "data.minimum_count": 1}]
    plan = plan_of(*(data | {"data.minimum_count": 1} | each for each in features))
    keep_baselines(plan, types.SimpleNamespace(path=tmp_path), types.SimpleNamespace(say=messages.append))
    assert messages == [] and "overlap" in read_baselines(tmp_path)["rows"]


@pytest.mark.parametrize("changed", [{"fingerprint": "of other data"}, {"asked": ["cosine"]}])
def test_baselines_of_other_data_or_of_another_request_are_computed_anew(tmp_path, monkeypatch, changed):
    write_baselines(tmp_path)
    file, asked = tmp_path / "baselines.json", ["majority", "overlap", "cosine", "bm25"]
    stored = json.loads(file.read_text()) | {"asked": asked}
    file.write_text(json.dumps(stored | changed))
    new, messages = [{**row, "title": f"new {row['title']}"} for row in stored["rows"]], []
    monkeypatch.setattr("jaxmatch.baselines.measured", lambda data, names: [row for row in new if row["name"] in names])
    plan = plan_of({"data.name": "embedded_inference"})
    plan.sweep.baselines = named_baselines("all")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    keep_baselines(plan, types.SimpleNamespace(path=tmp_path), types.SimpleNamespace(say=messages.append))
    assert messages == [
        "fitting the baselines: majority, overlap, cosine; left out: tfidf (pip install 'jaxmatch[baselines]'), "
        "bm25 (not for a classification)"
    ]
    made = read_baselines(tmp_path)
    assert [row.title for row in made["rows"].values()] == ["new word overlap"]
    assert (made["fingerprint"], made["asked"]) == ("f", asked)


def write_baselines(folder, **changes):
    row = {"name": "overlap", "title": "word overlap", "parameters": 3, "dev": {"auc": None, "f1": 0.5}, "test": None}
    row |= {"times": {"train_seconds_a_run": 1}} | changes
    rows = [row, {**row, "name": "bm25", "title": "BM25"}]
    (folder / "baselines.json").write_text(json.dumps({"format": 1, "fingerprint": "f", "rows": rows}))


def test_baselines_are_read_in_the_requested_order(tmp_path):
    assert read_baselines(tmp_path) == {}
    write_baselines(tmp_path)
    row = BaselineRow("word overlap", 3, {"dev.f1": 0.5, "times.train_seconds_a_run": 1.0})
    assert read_baselines(tmp_path)["rows"]["overlap"] == row
    notes = {"layout": {"title": "t", "rows": []}, "runs": [], "baselines": ["bm25", "cosine", "overlap"]}
    (tmp_path / "sweep.json").write_text(json.dumps(notes))
    assert [row.title for row in read_sweep_folder(tmp_path).baselines] == ["BM25", "word overlap"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"parameters": "many"}, "many"),
        ({"dev": [1]}, "items"),
        ({"dev": {"f1": "x"}}, "could not convert string to float: 'x'"),
    ],
)
def test_damaged_baselines_files_are_errors(tmp_path, changes, problem):
    write_baselines(tmp_path, **changes)
    with pytest.raises(InputError) as error:
        read_baselines(tmp_path)
    assert problem in str(error.value) and "remove it, and run the sweep again" in str(error.value)
    for text, problem in (
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": 2, "fingerprint": "f"}', "its format is not 1"),
        ('{"format": 1}', "damaged .'fingerprint'"),
    ):
        (tmp_path / "baselines.json").write_text(text)
        with pytest.raises(InputError, match=problem):
            read_baselines(tmp_path)


def test_baselines_of_a_sweep_file_are_replaced_by_those_requested():
    def requested_baselines(models="re2,esan", **requested):
        return launch.resolve(COMPARISON, options={"models": models}, **requested).baselines

    assert requested_baselines() == requested_baselines("all", baselines="none") == ()
    assert requested_baselines("all") == requested_baselines(baselines="all") == tuple(BASELINES)
    assert requested_baselines(baselines="cosine,overlap") == ("cosine", "overlap")
    with pytest.raises(InputError, match='there is no baseline "overlp"; did you mean "overlap"'):
        requested_baselines(baselines="overlp")


def test_tfidf_without_scikit_learn_is_an_error_before_training(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    words = ["sweep", str(COMPARISON), "--smoke", "--models", "re2", "--workdir", str(tmp_path / "w")]
    assert main([*words, "--baselines", "tfidf"]) == 2
    assert capsys.readouterr().err == (
        "jaxmatch: TF-IDF with logistic regression needs scikit-learn, which is not installed; "
        "pip install 'jaxmatch[baselines]', or leave it out of --baselines\n"
    )
    assert not (tmp_path / "w").exists()


@pytest.mark.slow
def test_the_table_is_reproduced_from_the_folder_without_refitting_baselines(few_pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JAXMATCH_DATA", raising=False)
    words = ["sweep", str(COMPARISON), "--dataset", "wikiqa", "--models", "decatt", "--smoke", "--seeds", "1"]
    words += ["--workdir", str(tmp_path / "w"), f"--config.execution.cache_directory={tmp_path}"]
    assert main([*words, "--baselines", "bm25,overlap"]) == 0
    first = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in first.splitlines()[2:5]] == ["DecAtt", "BM25", "word overlap"]
    assert main(["table", str(tmp_path / "w")]) == 0
    assert capsys.readouterr().out == first
    monkeypatch.setattr("jaxmatch.baselines.measured", lambda *_: pytest.fail("fitted again"))
    assert main([*words, "--baselines", "bm25,overlap"]) == 0
    assert capsys.readouterr().out == first
    # With "none", the file stays in the folder, and no table shows its baselines.
    assert main([*words, "--baselines", "none"]) == 0
    assert "BM25" not in capsys.readouterr().out
    assert main(["table", str(tmp_path / "w")]) == 0
    assert "BM25" not in capsys.readouterr().out
