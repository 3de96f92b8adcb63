"""`jaxmatch predict` keeps the order and the columns of its input, and reports the line that it cannot read."""

import gzip
import json
import sys
from pathlib import Path

import pandas
import pytest
from saved_model import LABELS, TEXTS, save, write_tsv

import jaxmatch
from jaxmatch.cli.main import main


def _predict(run, source, target, *more):
    assert main(["predict", str(run), "--input", str(source), "--output", str(target), *more]) == 0
    return [json.loads(line) for line in Path(target).read_bytes().decode().split("\n")[:-1]]


def test_predict_keeps_the_fields_of_json_lines(run, tmp_path, monkeypatch):
    monkeypatch.setattr("jaxmatch.cli.models.CHUNK", 2)  # the order must hold across chunks
    rows = [
        {"text_b": b, "meta": {"n": [number, None, 1.5]}, "text_a": a, "label": "mine", "input_label": number}
        for number, (a, b) in enumerate(TEXTS)
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\r\n" for row in rows), encoding="utf-8-sig", newline="")
    answers = _predict(run, source, tmp_path / "out.jsonl")
    for row, answer, prediction in zip(rows, answers, jaxmatch.load(run).predict(TEXTS), strict=True):
        label, probabilities = answer.pop("label"), answer.pop("probabilities")
        assert answer.pop("unknown_words") == round(prediction.unknown_words, 6)
        assert answer == {**{k: v for k, v in row.items() if k != "label"}, "input_input_label": "mine"}
        assert label == prediction.label
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict_writes_tables_with_a_column_for_each_probability(run, tmp_path, suffix):
    rows = [{"text_a": a, "text_b": b, "n": number} for number, (a, b) in enumerate(TEXTS)]
    rows[1] |= {"tags": ["x", "y, z"]}
    source, target = tmp_path / "in.jsonl", tmp_path / f"out{suffix}"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["predict", str(run), "--input", str(source), "--output", str(target)]) == 0
    frame = pandas.read_csv(target) if suffix == ".csv" else pandas.read_parquet(target)
    shares = [f"probability_{label}" for label in LABELS]
    assert list(frame.columns) == ["text_a", "text_b", "n", "label", "unknown_words", *shares, "tags"]
    assert list(zip(frame["text_a"], frame["text_b"], strict=True)) == TEXTS
    tags = frame["tags"][1]
    assert (json.loads(tags) if suffix == ".csv" else list(tags)) == ["x", "y, z"]
    for row, prediction in zip(frame[shares].to_numpy(), jaxmatch.load(run).predict(TEXTS), strict=True):
        assert row.tolist() == [round(value, 6) for value in prediction.probabilities.values()]


def test_a_file_without_a_header_has_columns_by_number(run, tmp_path, capsys):
    source = tmp_path / "in.tsv"
    source.write_text("".join(f"{b}\tx\t{a}\n" for a, b in TEXTS))
    answers = _predict(run, source, tmp_path / "out.jsonl", "--columns", "3=text_a,1=text_b")
    assert [(answer["text_a"], answer["text_b"], answer["2"]) for answer in answers] == [(a, b, "x") for a, b in TEXTS]
    source.write_text("".join(f"{a}\t{b}\n" for a, b in TEXTS))
    plain = _predict(run, source, tmp_path / "out.jsonl", "--columns", "1=text_a,2=text_b")
    assert [answer["probabilities"] for answer in plain] == [answer["probabilities"] for answer in answers]
    for columns, problem in (
        ("0=text_a,1=text_b", "1=text_a and so on"),
        ("1=text_a,3=text_b", "no column 'text_b'"),
        ("1=text_a,2=text_b", ":1: this looks like a header; leave out the numbers: text_a=premise,text_b=Text_B\n"),
        ("text_b=x", "no column 'text_a', 'x'"),
    ):
        source.write_text("premise\tText_B\na\tb\n" if "header" in problem else "a\tb\n")
        assert main(["predict", str(run), "--input", str(source), "--columns", columns]) == 2
        assert problem in capsys.readouterr().err


def test_predict_gives_scores_in_a_regression(tmp_path):
    run = save(tmp_path / "run", task="regression", labels=())
    answers = _predict(run, write_tsv(tmp_path / "in.tsv", TEXTS), tmp_path / "out.jsonl")
    expected = jaxmatch.load(run).logits(TEXTS)[:, 0].tolist()
    assert [answer["score"] for answer in answers] == [round(score, 6) for score in expected]
    assert all(set(answer) == {"text_a", "text_b", "score", "unknown_words"} for answer in answers)


# mtime=0, because these bytes are part of a test id, which must be the same in all pytest processes.
PACKED = gzip.compress(b"text_a,text_b\na,b\n", mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("in.tsv", b"text_a\ttext_b\na\tb\na\n", ":3: 1 column where the first line has 2"),
        ("in.tsv", b"text_a\ttext_b\na\tb\tc\n", ":2: 3 columns where the first line has 2"),
        ("in.tsv", b"text_a\tlabel\na\tb\n", ":1: the header has no column 'text_b'; it has 'text_a', 'label'"),
        ("in.tsv", b"text_a\ttext_b\ttext_a\n", ":1: the header names column 'text_a' twice"),
        ("in.tsv", b"text_a\ttext_b\n \tb\n", ":2: text_a is empty"),
        ("in.tsv", b"text_a\ttext_b\na\t\xff\n", ":2: it is not UTF-8 text ('utf-8' codec can't decode byte 0xff in"),
        ("in.tsv", b"", ": the file is empty"),
        ("in.jsonl", b'{"text_a": "a", "text_b": "b"}\n{"text_a": "a"\n', ":2: not valid JSON"),
        ("in.jsonl", b'["a", "b"]\n', ":1: the line is not a JSON object but ['a', 'b']"),
        ("in.jsonl", b'{"text_a": "a"}\n', ":1: the object has no key 'text_b'; it has 'text_a'"),
        ("in.jsonl", b'{"text_a": "a", "text_b": 3}\n', ":1: 'text_b' must be a string, not 3"),
        ("in.jsonl", b"[" * 200_000 + b"\n", ":1: not valid JSON (maximum recursion depth"),
        ("in.csv", b'text_a,text_b\n"a\nb",c\n"d,e\n', ":4: the row that begins here cannot be read"),
        ("in.csv", b"text_a,text_b,n,n\n", ":1: the header names column 'n' twice"),
        ("in.csv.gz", b"text_a,text_b\na,b\n", ": it cannot be read (Not a gzipped file (b'te'))\n"),
        ("in.csv.gz", PACKED + b"more", ": it cannot be read (Not a gzipped file (b'mo'))"),
        ("in.parquet", b"PAR1", ": it is not a readable Parquet file"),
    ],
)
def test_malformed_input_is_an_error_and_nothing_is_written(run, tmp_path, capsys, name, content, problem):
    source, target = tmp_path / name, tmp_path / "out.jsonl"
    source.write_bytes(content)
    for earlier in (None, "earlier answers\n"):
        if earlier:
            target.write_text(earlier)
        assert main(["predict", str(run), "--input", str(source), "--output", str(target)]) == 2
        out, err = capsys.readouterr()
        assert err.startswith(f"jaxmatch: {source}{problem}") and err.count("\n") == 1 and not out
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name] + ["out.jsonl"] * bool(earlier))
    assert target.read_text() == earlier


@pytest.mark.parametrize("name", ["o.csv.gz", "o.XLSX"])
def test_an_output_that_cannot_be_written_is_refused_before_the_model_is_read(tmp_path, capsys, name):
    assert main(["predict", str(tmp_path / "no-run"), "--input", "-", "--output", name]) == 2
    assert capsys.readouterr().err.startswith(f"jaxmatch: {name}: unknown format; predict writes .jsonl, .csv and")


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_closed_standard_stream_is_an_error(run, tmp_path, monkeypatch, capsys, stream):
    with monkeypatch.context() as closed:
        closed.setattr(sys, stream, None)
        status = main(["predict", str(run), "--input", "-", "--output", str(tmp_path / "out")])
    stream = {"stdin": "input", "stdout": "output"}[stream]
    assert status == 2 and capsys.readouterr().err.startswith(f"jaxmatch: standard {stream} is closed; give ")
    assert not list(tmp_path.iterdir())
