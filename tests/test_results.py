"""Results in Python: the data frame, the table and the scores agree with the records."""

import math

import pytest
import small_sweep
from IPython.core.formatters import MarkdownFormatter

import jaxmatch
from jaxmatch.config.settings import flatten
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError
from jaxmatch.sweep.files import load_module


def test_data_frame_has_a_row_per_run_with_settings_and_scores(finished_sweep):
    workdir, *_ = finished_sweep
    known = small_sweep.records(workdir)
    frame = jaxmatch.records(workdir).set_index("run")
    assert set(frame.index) == set(known) and len(known) == 2
    for run, record in known.items():
        row = frame.loc[run]
        assert row["folder"] == str(workdir / "runs" / run)
        assert row["optimizer.learning_rate"] == record["config"]["optimizer"]["learning_rate"]
        assert set(flatten(record["config"])) <= set(frame.columns)
        assert row["times.train_seconds"] == record["times"]["train_seconds"]
        for part in ("dev", "test"):
            for name, value in (record[part] or {}).items():
                shown = row[f"{part}.{name}"]
                assert math.isnan(shown) if value is None else shown == value
    assert frame["dev.accuracy"].dtype == float
    without_folder = jaxmatch.records(known.values())
    assert "folder" not in without_folder and sorted(without_folder["run"]) == sorted(known)


def test_folder_table_equals_the_command_output_and_accepts_another_layout(finished_sweep):
    workdir, text, _ = finished_sweep
    table = jaxmatch.table(str(workdir))
    assert table.markdown(verbose=False) == text and MarkdownFormatter()(table) == table.markdown()
    assert str(table) == text
    frame = table.dataframe()
    assert frame.to_csv(index=False) == table.csv() and frame["parameters"][0] == frame["parameters"].sum() / len(frame)
    assert table.html().count("<tr>") == 1 + len(frame) and "test accuracy" in table.html()
    layout = jaxmatch.TableLayout(title="By rate", rows=("optimizer.learning_rate",), scores=("dev.loss",))
    assert "dev loss" in jaxmatch.table(workdir, layout).markdown()
    records = list(small_sweep.records(workdir).values())
    assert jaxmatch.table(records, layout).markdown() == jaxmatch.table(workdir, layout).markdown()
    with pytest.raises(InputError, match="records do not say what their table shows"):
        jaxmatch.table(records)


def test_evaluate_reproduces_the_recorded_scores(finished_sweep, small_files, tmp_path):
    workdir, *_ = finished_sweep
    frame = jaxmatch.records(workdir)
    best = frame.loc[frame["dev.accuracy"].idxmax()]
    for split in ("dev", "test"):
        scores = jaxmatch.evaluate(best["folder"], split=split)
        assert scores["accuracy"] == pytest.approx(best[f"{split}.accuracy"])
    matcher = jaxmatch.load(best["folder"])
    assert jaxmatch.evaluate(matcher, small_files / "test.tsv") == jaxmatch.evaluate(best["folder"])
    pairs = Split(["ba bo"], ["bo da"], [matcher.predict([("ba bo", "bo da")])[0].label])
    assert jaxmatch.evaluate(matcher, pairs)["accuracy"] == 1
    assert jaxmatch.evaluate(matcher) == jaxmatch.evaluate(workdir) == jaxmatch.evaluate(best["folder"])
    details = jaxmatch.evaluate(matcher, small_files / "test.tsv", details=True, by="label")
    assert details["scores"] == jaxmatch.evaluate(matcher)
    recalls = {label: each["scores"]["accuracy"] for label, each in details["categories"].items()}
    assert recalls == pytest.approx({label: each["recall"] for label, each in details["classes"].items()})


def test_python_sweep_runs_with_only_a_name_config_and_grid(small_files, tmp_path):
    config = load_module(small_files / "small.py").get_sweep().config
    changes = {"training.epochs": 1, **small_sweep.overrides(small_files)}
    sweep = jaxmatch.Sweep(
        name="rates",
        config=jaxmatch.with_overrides(config, changes),
        grid={"optimizer.learning_rate": (0.01, 0.02)},
    )
    records = jaxmatch.run(sweep, tmp_path / "rates", display=small_sweep.Watcher())
    assert [record["seed"] for record in records] == [0, 0]
    text = jaxmatch.table(tmp_path / "rates").markdown()
    assert "learning rate" in text and "test accuracy (%)" in text and "rates" in text
