"""`jaxmatch evaluate` prints the scores that the score functions compute for a file or a split."""

import json

import numpy as np
import pytest
import saved_model
from saved_model import TEXTS, write_tsv

import jaxmatch
from jaxmatch.cli.main import main
from jaxmatch.data import catalog
from jaxmatch.data.own import layout_of
from jaxmatch.training.scores import score


def test_evaluate_scores_a_file(run, tmp_path, capsys):
    labels = ["neutral", "entailment", "contradiction", "neutral", "neutral"]
    rows = [(*pair, label) for pair, label in zip(TEXTS, labels, strict=True)]
    source = write_tsv(tmp_path / "in.tsv", rows, "text_a\ttext_b\tlabel")
    assert main(["evaluate", str(run), "--input", str(source), "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    indices = np.array([saved_model.LABELS.index(label) for label in labels])
    expected = score("classification", indices, jaxmatch.load(run).logits(TEXTS), label_names=saved_model.LABELS)
    assert result["scores"] == pytest.approx(expected)
    assert result["pairs"] == 5
    hits = [one.label == label for one, label in zip(jaxmatch.load(run).predict(TEXTS), labels, strict=True)]
    assert result["scores"]["accuracy"] == pytest.approx(sum(hits) / 5)


@pytest.mark.parametrize(("data", "mean"), [("wikiqa", 0.5), ("own", 0.5), ("trecqa", 0.75)])
def test_evaluate_ranks_within_groups_and_counts_those_that_the_data_set_counts(tmp_path, capsys, data, mean):
    config = {"data": {"name": data, "directory": "", "task": ""}}
    run = saved_model.save(tmp_path / "run", task="ranking", labels=("0", "1"), config=config)
    logits = jaxmatch.load(run).logits(TEXTS)
    second = int(np.argsort(logits[:4, 0] - logits[:4, 1])[1])  # of the first four
    # The fifth pair is a group without a wrong candidate, which does not count in results on WikiQA.
    rows = [(*pair, "01"[i in (second, 4)], "q1" if i < 4 else "q2") for i, pair in enumerate(TEXTS)]
    source = write_tsv(tmp_path / "in.tsv", rows, "text_a\ttext_b\tlabel\tgroup")
    assert main(["evaluate", str(run), "--input", str(source), "--format", "json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert (scores["map"], scores["mrr"]) == (mean, mean)


def test_evaluate_names_the_line_of_an_unknown_label(run, tmp_path, capsys):
    source = write_tsv(tmp_path / "in.tsv", [("a", "b", "neutral"), ("a", "b", "maybe")], "text_a\ttext_b\tlabel")
    assert main(["evaluate", str(run), "--input", str(source)]) == 2
    assert capsys.readouterr().err.startswith(f"jaxmatch: {source}:3: ")


def test_evaluate_reads_own_data_without_its_training_file(tmp_path, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    write_tsv(folder / "dev.tsv", [("a b", "c", "2.5"), ("d", "no e", "-1"), ("a", "a", "4")], "text_a\ttext_b\tlabel")
    config = {"data": {"name": "own", "directory": str(folder), "task": "regression"}}
    run = saved_model.save(tmp_path / "run", task="regression", labels=(), config=config)
    assert main(["evaluate", str(run), "--split", "dev", "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    logits = jaxmatch.load(run).logits([("a b", "c"), ("d", "no e"), ("a", "a")])[:, 0]
    assert result["data"] == "own dev"
    assert result["scores"]["pearson"] == pytest.approx(np.corrcoef(logits, [2.5, -1, 4])[0, 1], abs=1e-5)
    assert main(["evaluate", str(run)]) == 2
    assert "has no test file: looked for test.tsv, test.csv, test.jsonl, test.parquet" in capsys.readouterr().err


def test_evaluate_scores_only_the_dev_part_of_a_file_that_was_split(tmp_path, capsys):
    pairs = [*TEXTS, *((b, a) for a, b in TEXTS)]
    rows = [(*pair, str(number)) for number, pair in enumerate(pairs)]
    source = write_tsv(tmp_path / "pairs.tsv", rows, "text_a\ttext_b\tlabel")
    data = {"name": "own", "directory": str(source), "task": "regression", "split": "0.6/0.4"}
    run = saved_model.save(tmp_path / "run", task="regression", labels=(), config={"data": data})
    assert main(["evaluate", str(run), "--split", "dev", "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    dev = catalog.load("own", source, task="regression", layout=layout_of(data)).splits["dev"]
    logits = jaxmatch.load(run).logits(zip(dev.text_a, dev.text_b, strict=True))[:, 0]
    assert result["pairs"] == len(dev) < len(pairs)
    assert result["scores"]["mse"] == pytest.approx(np.mean((logits - dev.labels) ** 2), rel=1e-5)
