"""Commands take texts in the formats of training data: CSV, quoted TSV, JSON lines, Parquet, gzip, --columns."""

import csv
import datetime
import gzip
import io
import json
import sys

import pyarrow
import pytest
from pyarrow import parquet
from saved_model import LABELS, parameters, save

import jaxmatch
from jaxmatch.cli.main import main

# Texts that contain the separators of tables: commas, quotes, line ends and tabs.
PAIRS = [("a b, c", 'no "d"'), ("a\nb", "a"), ("e\td c", "b c")]
RENAMED = ("question1", "question2")
AS_RENAMED = ["--columns", "text_a=question1,text_b=question2"]


def separated(rows, by):
    file = io.StringIO()
    csv.writer(file, delimiter=by, lineterminator="\n").writerows(rows)
    return file.getvalue().encode()


def content(kind, names, texts):
    """Returns a file of rows with an "id" and texts; the columns of the texts have these names."""
    rows = [[number, *each] for number, each in enumerate(texts)]
    if kind in ("csv", "tsv"):
        return separated([["id", *names], *rows], "," if kind == "csv" else "\t")
    if kind == "jsonl":
        return b"".join(json.dumps(dict(zip(["id", *names], row))).encode() + b"\n" for row in rows)
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(dict(zip(["id", *names], map(list, zip(*rows))))), file)
    return file.getvalue()


def answers(run, capsys, *words):
    assert main(["predict", str(run), *map(str, words)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_predict_takes_every_format_of_training_data(run, tmp_path, capsys, kind, packed):
    file = tmp_path / f"pairs.{kind}{'.gz' * packed}"
    written = content(kind, RENAMED, PAIRS)
    file.write_bytes(gzip.compress(written) if packed else written)
    found = answers(run, capsys, "--input", file, *AS_RENAMED, *["--quoted"] * (kind == "tsv"))
    predicted = jaxmatch.load(run).predict(PAIRS)
    for number, (answer, pair, expected) in enumerate(zip(found, PAIRS, predicted, strict=True)):
        assert list(answer) == ["id", *RENAMED, "label", "probabilities", "unknown_words"]
        assert int(answer["id"]) == number and (answer["question1"], answer["question2"]) == pair
        assert answer["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)


def test_predict_reads_the_columns_of_training(tmp_path, capsys):
    data = {"name": "own", "columns": "text_a=question1,text_b=question2,label=same"}
    run = save(tmp_path / "run", config={"data": data})
    (renamed, plain) = tmp_path / "renamed.csv", tmp_path / "plain.csv"
    for file, names in ((renamed, RENAMED), (plain, ("text_a", "text_b"))):
        file.write_bytes(content("csv", names, PAIRS))
    found = answers(run, capsys, "--input", renamed)
    others = answers(run, capsys, "--input", plain, "--columns", "text_a=text_a,text_b=text_b")
    assert [each["probabilities"] for each in found] == [each["probabilities"] for each in others]


def test_the_format_option_applies_to_files_and_streams(run, tmp_path, capsys, monkeypatch):
    source = tmp_path / "pairs"
    table = separated([["text_a", "text_b", "", ""], *([*pair, "", ""] for pair in PAIRS)], ",")  # as Excel writes it
    source.write_bytes(table)
    expected = answers(run, capsys, "--input", source, "--input-format", "csv")
    assert [(answer["text_a"], answer["text_b"]) for answer in expected] == PAIRS
    with open(source) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert answers(run, capsys, "--input", "-", "--input-format", "csv") == expected


def test_values_without_a_json_type_become_text_or_null(run, tmp_path, capsys):
    day, none = datetime.date(2020, 2, 29), float("nan")
    columns = {"text_a": ["a", "b"], "text_b": ["b", "c"], "day": [day, None], "share": [none, 0.5], "raw": [b"x", b""]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "pairs.parquet")
    first, second = answers(run, capsys, "--input", tmp_path / "pairs.parquet")
    assert (first["day"], first["share"], second["day"], second["share"]) == ("2020-02-29", None, None, 0.5)
    (tmp_path / "pairs.jsonl").write_text('{"text_a": "a", "text_b": "\\ud800", "shares": [NaN, 1]}\n\n')
    (found,) = answers(run, capsys, "--input", tmp_path / "pairs.jsonl")
    assert (found["text_b"], found["shares"]) == ("\ud800", [None, 1])


def test_parquet_errors_count_rows_from_0(run, tmp_path, capsys):
    file = tmp_path / "pairs.parquet"
    file.write_bytes(content("parquet", ("text_a", "text_b"), [("a", "b"), ("c", " ")]))
    assert main(["predict", str(run), "--input", str(file)]) == 2
    assert capsys.readouterr().err == f"jaxmatch: {file}, row 1: text_b is empty\n"


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_rank_and_search_take_texts_from_a_column(tmp_path, capsys, kind):
    run = save(tmp_path / "run", labels=("0", "1"), params=parameters(2))
    texts = [a for a, _ in PAIRS]
    file = tmp_path / f"texts.{kind}.gz"
    file.write_bytes(gzip.compress(content(kind, ["answer"], [(text,) for text in texts])))
    more = ["--columns", "text=answer", *["--quoted"] * (kind == "tsv")]
    expected = [(one.text, pytest.approx(one.score)) for one in jaxmatch.load(run).rank("a b", texts)]
    for words in (["rank", str(run), "--input"], ["search", str(run), "--mix", "0", "--texts"]):
        assert main([*words, str(file), "--query", "a b", *more]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(one["text"], one["score"]) for one in found] == expected
    assert main(["rank", str(run), "--input", str(file), "--query", "a", "--columns", "txt=answer"]) == 2
    assert "columns: 'txt' is not a part of a pair; did you mean \"text\"?" in capsys.readouterr().err


def test_evaluate_takes_columns_and_labels_with_other_names(run, tmp_path, capsys):
    numbers = {label: str(number) for number, label in enumerate(LABELS)}
    rows = [["question1", "question2", "gold"], *([*pair, numbers[LABELS[0]]] for pair in PAIRS)]
    plain = [["text_a", "text_b", "label"], *([*pair, LABELS[0]] for pair in PAIRS)]
    (tmp_path / "named.csv").write_bytes(separated(rows, ","))
    (tmp_path / "plain.csv.gz").write_bytes(gzip.compress(separated(plain, ",")))
    (tmp_path / "named.tsv").write_bytes(separated(rows, "\t"))
    names = ["--columns", "text_a=question1,text_b=question2,label=gold"]
    labels = ["--labels", ",".join(f"{number}={label}" for label, number in numbers.items())]
    scores = []
    for words in (["plain.csv.gz"], ["named.csv", *names, *labels], ["named.tsv", "--quoted", *names, *labels]):
        assert main(["evaluate", str(run), "--format", "json", "--input", str(tmp_path / words[0]), *words[1:]]) == 0
        found = json.loads(capsys.readouterr().out)
        scores.append((found["pairs"], found["scores"]))
    assert scores[0] == scores[1] == scores[2] and scores[0][0] == len(PAIRS)
    for command in ("evaluate", "calibrate"):
        assert main([command, str(run), *names]) == 2
        assert "--columns applies to the file of --input, which is missing" in capsys.readouterr().err
