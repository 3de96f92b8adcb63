"""`jaxmatch predict` with pipes: it writes promptly, batches pairs that arrive together, and reports bad lines."""

import json
import os
import select
import sys
import threading

import jax
import pytest
from saved_model import TEXTS, write_tsv

import jaxmatch
import jaxmatch.inference.matcher
from jaxmatch.cli.main import main
from jaxmatch.cli.models import lines_of
from jaxmatch.errors import NotFinite

LONG = 20.0  # seconds; everything here takes less


class _Matcher:
    """A wrapper that predicts like its matcher, and records how many pairs each call has."""

    def __init__(self, matcher, fails=lambda pairs: None):
        self._matcher, self.fails, self.batch_sizes = matcher, fails, []

    def __getattr__(self, name):
        return getattr(self._matcher, name)

    def predict(self, pairs):
        self.batch_sizes.append(len(pairs))
        self.fails(pairs)
        return self._matcher.predict(pairs)


@pytest.fixture
def matcher(run, monkeypatch):
    """The matcher that the command loads."""
    found = _Matcher(jaxmatch.load(run))
    found.predict(TEXTS)
    found.batch_sizes.clear()
    monkeypatch.setattr(jaxmatch.inference.matcher, "load", lambda _: found)
    return found


class _Command:
    """`predict` in a thread, reading a FIFO, and writing to a pipe."""

    def __init__(self, monkeypatch, run, folder):
        os.mkfifo(folder / "in")
        answers, written = os.pipe()
        self._stdout = open(written, "w")
        monkeypatch.setattr(sys, "stdout", self._stdout)
        self.status = None
        self._thread = threading.Thread(target=self._run, args=(run, folder / "in"), daemon=True)
        self._thread.start()
        self._writer = os.open(folder / "in", os.O_WRONLY)
        self._read = open(answers, "rb", buffering=0)  # unbuffered, because `select` does not see a buffer

    def _run(self, run, source):
        self.status = main(["predict", str(run), "--input", str(source), "--output", "-"])
        self._stdout.close()

    def send(self, *rows):
        os.write(self._writer, b"".join("\t".join(row).encode() + b"\n" for row in rows))

    def answer(self):
        assert select.select([self._read], [], [], LONG)[0], "there is no answer"
        return json.loads(self._read.readline())

    def end(self):
        os.close(self._writer)
        with self._read:
            rest = [json.loads(line) for line in self._read]
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        return rest


def test_a_prediction_does_not_wait_for_the_next_pair(run, matcher, monkeypatch, tmp_path):
    command = _Command(monkeypatch, run, tmp_path)
    command.send(("text_a", "text_b"))
    for pair in TEXTS[:3]:  # each is predicted before the next one is sent
        command.send(pair)
        answer = command.answer()
        assert (answer["text_a"], answer["text_b"]) == pair
    command.send(("a", "b"), ("b", "c"))
    assert [command.answer()["text_a"], command.answer()["text_a"]] == ["a", "b"]
    assert command.end() == [] and command.status == 0
    assert matcher.batch_sizes == [1, 1, 1, 2]


def test_pairs_that_arrive_together_are_predicted_in_chunks(run, matcher, monkeypatch, tmp_path):
    monkeypatch.setattr("jaxmatch.cli.models.CHUNK", 50)
    command = _Command(monkeypatch, run, tmp_path)
    command.send(("text_a", "text_b"), *[("a b", "c")] * 120)
    assert len(command.end()) == 120
    assert matcher.batch_sizes == [50, 50, 20]


def test_all_pairs_before_a_bad_line_are_predicted(run, matcher, monkeypatch, capsys, tmp_path):
    command = _Command(monkeypatch, run, tmp_path)
    command.send(("text_a", "text_b"), *TEXTS, ("alone",), ("a", "b"))
    assert [answer["text_a"] for answer in command.end()] == [a for a, _ in TEXTS]
    assert command.status == 2
    assert capsys.readouterr().err.startswith(f"jaxmatch: {tmp_path}/in:7: 1 column where the first line has 2")


def _predict_rows(matcher, rows, capsys, tmp_path, monkeypatch):
    """Predicts rows from standard input. Returns the exit status, the answers, and the text of standard error."""
    with open(write_tsv(tmp_path / "source", rows)) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        status = main(["predict", "run", "--input", "-", "--output", "-"])
    out, err = capsys.readouterr()
    return status, [json.loads(line)["text_a"] for line in out.splitlines()], err


NO_MEMORY = "out of device memory on this pair; shorten its texts, or free device memory"


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (MemoryError(), NO_MEMORY),
        (jax.errors.JaxRuntimeError("INTERNAL: cublasCreate failed: CUBLAS_STATUS_ALLOC_FAILED"), NO_MEMORY),
        (NotFinite(2), "the model's output for this pair is not finite; train the model again"),
    ],
)
def test_a_pair_that_cannot_be_predicted_is_reported_with_its_line(
    matcher, capfd, tmp_path, monkeypatch, error, problem
):
    def fails(pairs):
        if ("no", "c") in pairs:
            raise error

    matcher.fails = fails
    rows = [("a", "b"), ("b", "c"), ("no", "c"), ("c", "d")]
    status, answers, err = _predict_rows(matcher, rows, capfd, tmp_path, monkeypatch)
    assert (status, answers, matcher.batch_sizes) == (2, ["a", "b"], [4, 2, 2, 1])
    assert err == f"jaxmatch: standard input:4: {problem}\n"


def test_pairs_that_do_not_fit_as_a_batch_are_predicted_in_smaller_ones(matcher, capfd, tmp_path, monkeypatch):
    def fails(pairs):
        if len(pairs) > 2:
            raise MemoryError

    matcher.fails = fails
    assert _predict_rows(matcher, TEXTS, capfd, tmp_path, monkeypatch) == (0, [a for a, _ in TEXTS], "")
    assert matcher.batch_sizes == [5, 2, 3, 1, 2]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 100])
def test_lines_do_not_depend_on_the_block_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr("jaxmatch.cli.models.BLOCK_BYTES", block)
    for content in (b"", b"\n", b"a", b"a\n", b"a\nb", b"\n\nab\r\ncd\n\n", b"long line of text\n" * 3):
        file = tmp_path / "file"
        file.write_bytes(content)
        with open(file, "rb") as opened:
            lines = list(lines_of(opened.fileno()))
        assert lines == content.splitlines(keepends=True)
