"""Unreadable inputs and unwritable outputs are refused before any computation, and no existing file is lost."""

import os
import signal
import subprocess
import sys
import time

import pytest
from saved_model import TEXTS, write_tsv

import jaxmatch
from jaxmatch.analysis import attention, occlusion
from jaxmatch.cli.main import main
from jaxmatch.inference import matcher
from jaxmatch.reporting import report


def refused(capsys, *words):
    """Checks that a command fails with one line and without output, and returns the message."""
    assert main(list(map(str, words))) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("jaxmatch: ") and err.count("\n") == 1
    return err.removeprefix("jaxmatch: ").rstrip("\n")


@pytest.fixture
def no_compute(monkeypatch):
    """Makes every computation fail."""

    def fail(*_, **__):
        raise AssertionError("something is computed")

    for module, name in ((matcher, "load"), (report, "report"), (attention, "attention"), (occlusion, "occlusion")):
        monkeypatch.setattr(module, name, fail)


@pytest.mark.parametrize("how", ["name", "link", "stdin"])
@pytest.mark.parametrize("command", [["predict"], ["rank", "--query", "a"], ["search", "--query", "a"]])
def test_an_output_that_is_the_input_is_refused(run, tmp_path, capsys, no_compute, monkeypatch, command, how):
    source, output = write_tsv(tmp_path / "same.tsv", TEXTS), tmp_path / "same.tsv"
    before = source.read_bytes()
    if how == "link":
        output = tmp_path / "link"
        output.symlink_to(source)
    option = "--texts" if command[0] == "search" else "--input"
    with open(source) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        words = [*command, run, option, "-" if how == "stdin" else source, "--output", output]
        assert refused(capsys, *words) == f"{output}: this is also the input; give --output another name"
    assert source.read_bytes() == before


def test_output_that_replaces_a_file_of_an_input_folder_is_refused(run, tmp_path, capsys, no_compute, monkeypatch):
    folder = tmp_path / "idx"
    folder.mkdir()
    for name in ("index.json", "texts.jsonl", "sweep.json", "parameters.safetensors", "report.html"):
        (folder / name).write_text("kept")
    for name, words in (
        ("index.json", ["search", run, "--query", "a", "--index", folder]),
        ("texts.jsonl", ["search", run, "--query", "a", "--index", folder]),
        ("sweep.json", ["report", folder]),
        ("parameters.safetensors", ["report", folder]),
        ("sweep.json", ["predict", folder, "--best", "--input", write_tsv(tmp_path / "a.tsv", TEXTS)]),
    ):
        message = refused(capsys, *words, "--output", folder / name)
        assert message == f"{folder / name}: this is a file of {folder}, which is read; give --output another name"
        assert (folder / name).read_text() == "kept"
    monkeypatch.setattr(report, "report", lambda _: "the page")
    assert main(["report", str(folder)]) == 0 and (folder / "report.html").read_text() == "the page"
    assert main(["report", str(folder), "--output", str(folder / "new")]) == 0


@pytest.mark.parametrize("command", ["predict", "report"])
def test_unwritable_output_is_refused_before_computation(run, tmp_path, capsys, no_compute, command):
    words = [command, run] + (["--input", write_tsv(tmp_path / "a.tsv", TEXTS)] if command == "predict" else [])
    message = refused(capsys, *words, "--output", tmp_path)
    assert message == f"{tmp_path}: this is a folder; --output needs a file"
    absent = tmp_path / "absent"
    remedy = "make it, or give --output another name"
    assert refused(capsys, *words, "--output", absent / "x") == f"{absent}/x: there is no folder {absent}; {remedy}"
    assert not absent.exists()


@pytest.mark.parametrize("command", ["inspect", "occlusion", "figure", "export", "search"])
def test_file_given_as_output_folder_is_refused_before_computation(run, tmp_path, capsys, no_compute, command):
    file = write_tsv(tmp_path / "x.tsv", TEXTS)
    words, option = {"export": ["--format", "onnx"], "search": ["--texts", file]}.get(command, []), "--output"
    if command == "search":
        option = "--save"
    for output in (file, file / "below"):
        message = refused(capsys, command, run, *words, option, output)
        assert message == f"{file}: this is a file; {option} needs a folder"


@pytest.mark.parametrize("command", ["table", "report", "ensemble", "predict"])
def test_sweep_folder_that_is_a_file_or_missing_is_refused(tmp_path, capsys, command):
    file, absent = write_tsv(tmp_path / "x.tsv", TEXTS), tmp_path / "nope"
    more = ["--best", "--input", file] if command == "predict" else []
    assert refused(capsys, command, file, *more).startswith(f"{file}: this is a file, not a folder; give the --workdir")
    assert refused(capsys, command, absent, *more).startswith(f"{absent}: there is no such folder; give the --workdir")


def test_input_that_is_a_folder_or_empty_is_refused(run, tmp_path, capsys):
    for command in (["predict"], ["rank", "--query", "a"]):
        message = refused(capsys, *command, run, "--input", tmp_path)
        assert message == f"{tmp_path}: this is a folder, not a file; give a file"
        message = refused(capsys, *command, run, "--input", "")
        assert message == 'the input has no name; give a file, or "-" for standard input'


@pytest.mark.parametrize(
    "words",
    [
        ["train", "re2", "--workdir", ""],
        ["sweep", "quickstart", "--workdir="],
        ["timing", "re2_timing", "--workdir", ""],
        ["inspect", "run", "--output", ""],
        ["evaluate", "run", "--input", ""],
    ],
)
def test_empty_path_is_an_error_and_writes_nothing(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(words)
    option = words[2].rstrip("=")
    assert caught.value.code == 2 and f"argument {option}: it has no name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_partial_output_of_a_killed_command_is_removed_by_the_next(run, tmp_path, capsys):
    source, output = write_tsv(tmp_path / "in.tsv", TEXTS), tmp_path / "out.jsonl"
    words = ["predict", str(run), "--input", "-", "--output", str(output)]
    root = os.path.dirname(os.path.dirname(jaxmatch.__file__))
    killed = subprocess.Popen(
        [sys.executable, "-m", "jaxmatch", *words], stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}
    )

    def left():
        return list(tmp_path.glob(".out.jsonl.*.partial"))

    try:
        end = time.monotonic() + 120
        while not left():
            assert killed.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        words[3] = str(source)
        assert main(words) == 0 and len(left()) == 1  # the process that writes it is alive
    finally:
        killed.send_signal(signal.SIGTERM)
        killed.communicate()
    assert len(left()) == 1
    other = tmp_path / ".other.jsonl.1.ab.partial"
    other.touch()
    assert main(words) == 0
    assert not left() and other.exists() and len(output.read_text().splitlines()) == len(TEXTS)
