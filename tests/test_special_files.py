"""A pipe, a device or a folder in place of a file is refused in one line, without blocking."""

import json
import os
import shutil
from pathlib import Path

import pytest

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.papers.timing import read_times

RESULTS = Path(__file__).parent.parent / "results"


def _pipe(path: Path) -> Path:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def _refused(capsys, words, place, problem):
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"jaxmatch: {place}: {problem}") and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    ("command", "kind"), [("sweep", "pipe"), ("train", "device"), ("tune", "folder"), ("timing", "pipe")]
)
def test_a_pipe_device_or_folder_in_place_of_a_sweep_file_is_refused(tmp_path, capsys, command, kind):
    path = _pipe(tmp_path / "x.py") if kind == "pipe" else Path("/dev/zero") if kind == "device" else tmp_path
    _refused(capsys, [command, path], path, f"this is a {kind}, not a file; give a file of configs/")


def test_pipes_as_records_sweep_notes_or_figure_values_are_refused(tmp_path, capsys):
    folder = tmp_path / "sweep"
    shutil.copytree(RESULTS / "quickstart", folder)
    file = _pipe(next((folder / "runs").glob("*/record.json")))
    for command in (["table", folder], ["report", folder], ["figure", folder, "--output", tmp_path]):
        _refused(capsys, command, file, "this is a pipe, not a file")
    assert not (folder / "report.html").exists()
    notes = _pipe(folder / "sweep.json")
    _refused(capsys, ["table", folder], notes, "this is a pipe, not a file")
    values = _pipe(tmp_path / "curves.json")
    _refused(capsys, ["figure", values, "--output", tmp_path], values, "this is a pipe, not a file")
    with pytest.raises(InputError, match="this is a pipe"):
        read_times(_pipe(tmp_path / "timing.json"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"x = 1\0\n", "null bytes"),
        (b"# -*- coding: utf-8 -*-\nx = '\xff'\n", "codec can't decode"),
        (b"x = " + b"-" * 100_000 + b"1", ""),
        (b"#" * (2**20 + 1), "the file has 1,048,577 bytes, more than 1,048,576"),
    ],
)
def test_a_sweep_file_that_is_not_valid_python_is_refused(tmp_path, capsys, content, problem):
    file = tmp_path / "a.py"
    file.write_bytes(content)
    assert main(["sweep", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"jaxmatch: {file}:") and problem in err and err.count("\n") == 1


def test_undrawable_figure_values_are_refused(tmp_path, capsys):
    point = {"samples": 10, "mean": 0.5, "deviation": None, "seeds": 1}
    setting = {"name": "a", "seeds": [1], "points": [point, {**point, "samples": "many"}]}
    file = tmp_path / "curves.json"
    file.write_text(json.dumps({"kind": "curves", "score": "dev.mrr", "settings": [setting]}))
    _refused(capsys, ["figure", file, "--output", tmp_path / "out"], file, "the file is damaged")
    assert not (tmp_path / "out").exists()
