"""Unreadable inputs and unwritable outputs are refused before any computation, and no existing file is lost."""

import os
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


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize(
    "command", [["predict", "--input"], ["rank", "--query", "a", "--input"], ["search", "--query", "a", "--texts"]]
)
def test_an_output_that_is_the_input_is_refused(run, tmp_path, capsys, no_compute, command, link):
    source = output = write_tsv(tmp_path / "same.tsv", TEXTS)
    before = source.read_bytes()
    if link:
        output = tmp_path / "link"
        output.symlink_to(source)
    message = refused(capsys, command[0], run, *command[1:], source, "--output", output)
    assert message == f"{output}: this is also the input; give --output another name"
    assert source.read_bytes() == before


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
    words = {"export": ["--format", "onnx"], "search": ["--texts", file]}.get(command, [])
    option = "--save" if command == "search" else "--output"
    for output in (file, file / "below"):
        message = refused(capsys, command, run, *words, option, output)
        assert message.startswith(f"argument {option}: {output} cannot be a folder on this machine")


@pytest.mark.parametrize("command", ["table", "report", "ensemble", "predict"])
def test_sweep_folder_that_is_a_file_or_missing_is_refused(tmp_path, capsys, command):
    file = write_tsv(tmp_path / "x.tsv", TEXTS)
    more = ["--best", "--input", file] if command == "predict" else []
    for folder in (file, tmp_path / "nope"):
        assert refused(capsys, command, folder, *more).startswith(str(folder))


def test_input_that_is_a_folder_missing_or_nameless_is_refused(run, tmp_path, capsys):
    for command in (["predict"], ["rank", "--query", "a"]):
        words = [*command, run, "--input"]
        assert refused(capsys, *words, tmp_path) == f"{tmp_path}: Is a directory"
        assert refused(capsys, *words, tmp_path / "no.tsv") == f"{tmp_path}/no.tsv: No such file or directory"
        assert refused(capsys, *words, "").startswith("argument --input: it has no name")
    source = write_tsv(tmp_path / "in.tsv", TEXTS)
    assert "holds no model" in refused(capsys, "predict", tmp_path, "--input", source)


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
        killed.kill()
        killed.communicate()
    assert len(left()) == 1
    other = tmp_path / ".other.jsonl.1.ab.partial"
    other.touch()
    assert main(words) == 0
    assert not left() and other.exists() and len(output.read_text().splitlines()) == len(TEXTS)
