"""The table of a sweep's folder in all formats, and one-line errors about damaged files."""

import csv
import dataclasses
import io
import json
import shutil
from pathlib import Path

import pytest
import small_sweep

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.reporting.records import read_sweep_folder
from jaxmatch.reporting.table import folder_table, table_of


@pytest.mark.slow
def test_the_table_of_a_folder_in_all_formats(finished_sweep):
    workdir, text, _ = finished_sweep
    assert folder_table(workdir, verbose=False) == text and folder_table(workdir).startswith(text + "\n---\n")
    assert r"\toprule" in folder_table(workdir, "latex")
    assert json.loads(folder_table(workdir, "json"))
    (record,) = (each for each in small_sweep.records(workdir).values() if each["status"] == "finished")
    assert repr(record["test"]["accuracy"]) in folder_table(workdir, "csv")
    assert len(list(csv.reader(io.StringIO(folder_table(workdir, "csv"))))) > 2


def test_the_command_prints_a_short_caption_and_the_verdict_and_writes_the_whole_to_a_file(tmp_path, capsys):
    folder = str(Path(__file__).parent.parent / "results" / "quickstart")
    whole, file = folder_table(Path(folder)), tmp_path / "table.md"
    assert main(["table", folder]) == 0
    printed, verdict = capsys.readouterr()
    assert whole.startswith(f"{printed}\n---\n") and printed.startswith("| blocks")
    assert verdict.startswith("\nNo baseline was fitted") and verdict.endswith(" --best --input pairs.tsv\n")
    assert main(["table", folder, "--verbose"]) == main(["table", folder, "--output", str(file)]) == 0
    assert capsys.readouterr().out == whole == file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_runs_that_have_not_finished_are_noted(sweep_copy):
    run = next(run for run, record in small_sweep.records(sweep_copy).items() if record["status"] == "diverged")
    shutil.rmtree(sweep_copy / "runs" / run)
    assert "1 of 2 runs has not finished" in folder_table(sweep_copy)
    shutil.rmtree(sweep_copy / "runs")
    with pytest.raises(InputError, match="no run has finished yet"):
        folder_table(sweep_copy)


def test_missing_runs_of_a_large_sweep_are_counted():
    folder = read_sweep_folder(Path(__file__).parent.parent / "results" / "quickstart")
    nine = dict(list(folder.records.items())[3:])
    table = table_of(dataclasses.replace(folder, records=nine)).markdown()
    assert "3 of 12 runs have not finished." in table


@pytest.mark.slow
def test_error_about_an_unknown_score_in_the_layout_names_the_file(sweep_copy):
    notes = json.loads((sweep_copy / "sweep.json").read_text())
    notes["layout"]["scores"] = ["x"]
    (sweep_copy / "sweep.json").write_text(json.dumps(notes))
    with pytest.raises(InputError, match="sweep.json: the table asks for 'x', which no run has"):
        folder_table(sweep_copy)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"layout": {}, "runs": []}', '{"layout": {"published": []}}'])
def test_damaged_sweep_json_is_an_error_and_the_next_launch_rewrites_it(small_files, sweep_copy, damage):
    (sweep_copy / "sweep.json").write_text(damage)
    with pytest.raises(InputError, match="sweep.json: the file is damaged"):
        folder_table(sweep_copy)
    small_sweep.launched(small_files, sweep_copy)
    assert "A small sweep" in folder_table(sweep_copy)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [{"title": 3}, {"order": {"seed": 3}}, {"notes": [3]}, {}], ids=json.dumps)
def test_wrong_types_in_sweep_json_are_an_error(sweep_copy, layout):
    notes = json.loads((sweep_copy / "sweep.json").read_text())
    notes["layout"] |= layout
    notes["places"] = notes["places"] if layout else {run: {"overrides": 3} for run in notes["places"]}
    (sweep_copy / "sweep.json").write_text(json.dumps(notes))
    with pytest.raises(InputError, match="sweep.json: the file is damaged"):
        folder_table(sweep_copy)


@pytest.mark.slow
def test_record_of_another_run_is_an_error(sweep_copy):
    one, other = small_sweep.records(sweep_copy)
    shutil.copy(sweep_copy / "runs" / one / "record.json", sweep_copy / "runs" / other / "record.json")
    with pytest.raises(InputError, match=f"{other}/record.json: this is the record of the run {one}"):
        folder_table(sweep_copy)


def test_folder_without_a_sweep_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no sweep was run in this folder"):
        folder_table(tmp_path)
