"""`jaxmatch evaluate` prints the scores that the score functions compute for a file or a split."""

import json

import numpy as np
import pytest
import saved_model
import scipy.special
import scipy.stats
import sklearn.metrics
from saved_model import TEXTS, write_tsv

import jaxmatch
from jaxmatch.cli.main import main
from jaxmatch.data import catalog
from jaxmatch.data.own import layout_of
from jaxmatch.training.scores import score


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


PAIRS = [(a, b) for a in saved_model.texts(6) for b in saved_model.texts(5)]


def test_evaluate_counts_each_label_and_prediction_and_scores_each_category(run, tmp_path, capsys):
    labels = [saved_model.LABELS[number % 3] for number in range(30)]
    kinds = ["odd" if number % 4 else "every\\fourth" for number in range(30)]
    rows = [(*pair, label, kind) for pair, label, kind in zip(PAIRS, labels, kinds, strict=True)]
    source = write_tsv(tmp_path / "in.tsv", rows, "text_a\ttext_b\tlabel\tkind")
    words = ["evaluate", str(run), "--input", str(source), "--by", "kind"]
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    predicted = [one.label for one in jaxmatch.load(run).predict(PAIRS)]
    indices = np.array([saved_model.LABELS.index(label) for label in labels])
    expected = score("classification", indices, jaxmatch.load(run).logits(PAIRS), label_names=saved_model.LABELS)
    assert (found["scores"], found["pairs"]) == (pytest.approx(expected), 30)
    assert found["confusion"] == sklearn.metrics.confusion_matrix(labels, predicted, labels=saved_model.LABELS).tolist()
    report = sklearn.metrics.classification_report(labels, predicted, output_dict=True, zero_division=0)
    for label in saved_model.LABELS:
        each, expected = found["classes"][label], report[label]
        shares = (each["precision"], each["recall"], each["f1"], each["pairs"])
        assert shares == pytest.approx(tuple(expected[key] for key in ("precision", "recall", "f1-score", "support")))
    lower, upper = found["intervals"]["macro_f1"]
    assert 0 < lower < found["scores"]["macro_f1"] < upper < 1
    hits = np.array(labels) == np.array(predicted)
    interval = scipy.stats.binomtest(int(hits.sum()), 30).proportion_ci(method="wilson")
    assert found["intervals"]["accuracy"] == pytest.approx([interval.low, interval.high])
    assert set(found["categories"]) == set(kinds)
    for kind, each in found["categories"].items():
        of = np.array(kinds) == kind
        assert (each["pairs"], each["scores"]["accuracy"]) == (of.sum(), pytest.approx(hits[of].mean()))
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["every\\fourth", "odd"]
    (neutral,) = (line.split() for line in lines if line.startswith("neutral "))
    assert neutral[1:4] == list(map(str, found["confusion"][1]))
    assert main(["evaluate", str(run), "--by", "kind"]) == 2
    assert "--by applies to the file of --input" in capsys.readouterr().err


def test_a_label_of_a_file_has_the_sum_of_the_probabilities_of_labels_of_the_model(run, tmp_path, capsys):
    rows = [(*pair, ("non-entailment", "entailment")[number % 2]) for number, pair in enumerate(PAIRS)]
    source = write_tsv(tmp_path / "in.tsv", rows, "text_a\ttext_b\tlabel")
    words = ["evaluate", str(run), "--format", "json", "--input", str(source), "--labels"]
    assert main([*words, "entailment=entailment,neutral+contradiction=non-entailment"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == ["entailment", "non-entailment"]
    others = 1 - scipy.special.softmax(jaxmatch.load(run).logits(PAIRS).astype(float), axis=1)[:, 0]
    right = np.array([label == "non-entailment" for *_, label in rows])
    assert found["scores"]["accuracy"] == pytest.approx(np.mean((others > 0.5) == right))
    assert found["scores"]["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(right, others))
    assert found["intervals"]["f1"][0] < found["scores"]["f1"] < found["intervals"]["f1"][1]
    assert main([*words, "entailment+neutral=entailment"]) == 2
    assert "a sum needs all labels of the model" in capsys.readouterr().err
    assert main([*words, "entailment=entailment,neutral+contradicton=non-entailment"]) == 2
    assert "no label 'contradicton'; did you mean \"contradiction\"?" in capsys.readouterr().err


def test_a_ranking_takes_grades_and_says_how_many_questions_counted(tmp_path, capsys):
    run = saved_model.save(tmp_path / "run", task="ranking", labels=("0", "1"))
    grades = np.array([0, 2, 1, 0, 3, 0] * 3 + [0] * 6 + [1] * 6)
    rows = [(*pair, str(grade), f"q{number // 6}") for number, (pair, grade) in enumerate(zip(PAIRS, grades))]
    source = write_tsv(tmp_path / "in.tsv", rows, "text_a\ttext_b\tlabel\tgroup")
    words = ["evaluate", str(run), "--input", str(source)]
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    logits = jaxmatch.load(run).logits(PAIRS).astype(float)
    values = (logits[:, 1] - logits[:, 0]).reshape(5, 6)[:3]
    each = [sklearn.metrics.ndcg_score([grade], [value]) for grade, value in zip(grades[:18].reshape(3, 6), values)]
    assert found["questions"] == {"all": 5, "counted": 3}
    assert found["scores"]["ndcg"] == pytest.approx(np.mean(each), abs=1e-6)
    interval = scipy.stats.t.interval(0.95, 2, np.mean(each), scipy.stats.sem(each))
    assert found["intervals"]["ndcg"] == pytest.approx([max(0, interval[0]), min(1, interval[1])], abs=1e-5)
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"{source}: 30 pairs, 3 of 5 questions counted\n")
