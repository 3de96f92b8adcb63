"""The command hands on what was asked, answers what was given, and says in one line what is wrong."""

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import saved_model
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxmatch
import jaxmatch.experiments
from jaxmatch.cli import predict, table
from jaxmatch.cli.dotted import take_dotted
from jaxmatch.cli.main import SUBCOMMANDS, main
from jaxmatch.cli.pairs import read_pairs
from jaxmatch.errors import InputError
from jaxmatch.training.scores import score


@pytest.fixture
def launch(monkeypatch):
    """Stands in for jaxmatch.experiments.launch, and notes its calls."""
    calls = []

    def note(name):
        def function(*positional, **named):
            calls.append((name, positional, named))
            return f"the {name}"

        return function

    fake = types.SimpleNamespace(calls=calls, **{name: note(name) for name in ("sweep", "train", "table")})
    monkeypatch.setattr(jaxmatch.experiments, "launch", fake, raising=False)
    return fake


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return saved_model.save(tmp_path_factory.mktemp("workdir") / "runs" / "some-seed1")


# Options that only a config knows


@pytest.mark.parametrize(
    ("words", "rest", "config", "grid"),
    [
        (["sweep", "a.py"], ["sweep", "a.py"], {}, {}),
        (["--config.model.blocks=3", "sweep"], ["sweep"], {"model.blocks": "3"}, {}),
        (["--config.model.blocks", "3", "sweep"], ["sweep"], {"model.blocks": "3"}, {}),
        (["--config.optimizer.weight_decay", "-1"], [], {"optimizer.weight_decay": "-1"}, {}),
        (["--config.data.vectors=a=b"], [], {"data.vectors": "a=b"}, {}),
        (["--config.data.vectors="], [], {"data.vectors": ""}, {}),
        (["--config.seed=1", "--config.seed=2"], [], {"seed": "2"}, {}),
        (["--grid.model.blocks=1,2", "--config.x=1"], [], {"x": "1"}, {"model.blocks": "1,2"}),
        (["predict", "--", "--config.x=1"], ["predict", "--", "--config.x=1"], {}, {}),
        (["--config", "x", "--configuration.x=1"], ["--config", "x", "--configuration.x=1"], {}, {}),
    ],
)
def test_dotted_options_are_taken_out(words, rest, config, grid):
    assert take_dotted(words) == (rest, {"config": config, "grid": grid})


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--config.=1", "--config. has no name"),
        ("--config.model..blocks=1", "has no name"),
        ("--config.model.blocks", "--config.model.blocks has no value; write it like --config."),
        ("--grid.model.blocks", "--grid.model.blocks has no value; write it like --grid."),
    ],
)
def test_half_an_option_is_refused(word, message):
    with pytest.raises(InputError, match=message):
        take_dotted(["sweep", word])


# What reaches the launcher


def test_sweep_hands_everything_on(launch, capsys):
    words = (
        "sweep sweeps/free.py --workdir out --seeds 3 --dry-run --config.model.blocks=2 "
        "--grid.optimizer.learning_rate=1e-3,2e-3 --data-directory ../data --vectors glove.zip"
    )
    assert main(words.split()) == 0
    assert launch.calls == [
        (
            "sweep",
            (Path("sweeps/free.py"),),
            {
                "workdir": Path("out"),
                "seeds": 3,
                "dry_run": True,
                "overrides": {"model.blocks": "2"},
                "grid_overrides": {"optimizer.learning_rate": "1e-3,2e-3"},
                "options": {"data_directory": "../data", "vectors": "glove.zip"},
                "smoke": False,
            },
        )
    ]
    assert capsys.readouterr().out == "the sweep\n"


def test_options_that_only_the_sweep_file_knows_are_handed_on(launch, capsys):
    assert main("sweep a.py --data sick --short-run=yes --workdir out --vectors v.txt".split()) == 0
    assert launch.calls[0][2]["options"] == {"data": "sick", "short_run": "yes", "vectors": "v.txt"}
    for words, message in (("--dry", "--dry is not an option of the command, or has no value"), ("b.py", "'b.py' is not")):
        assert main(["sweep", "a.py", *words.split()]) == 2
        assert f"jaxmatch: {message}" in capsys.readouterr().err
    assert len(launch.calls) == 1


def test_train_has_the_same_options_and_its_defaults(launch, capsys):
    assert main(["train", "configs/re2_snli.py"]) == 0
    assert launch.calls == [
        (
            "train",
            (Path("configs/re2_snli.py"),),
            {
                "workdir": Path("runs/re2_snli"),
                "seeds": None,
                "dry_run": False,
                "overrides": {},
                "grid_overrides": {},
                "options": {},
                "smoke": False,
            },
        )
    ]
    assert capsys.readouterr().out == "the train\n"


def test_a_smoke_run_has_a_folder_of_its_own(launch):
    assert main(["sweep", "a.py", "--smoke"]) == 0
    assert (launch.calls[0][2]["workdir"], launch.calls[0][2]["smoke"]) == (Path("runs/a-smoke"), True)


@pytest.mark.parametrize("layout", table.FORMATS)
def test_table_prints_the_records(launch, capsys, layout):
    assert main(["table", "out", "--format", layout]) == 0
    assert launch.calls == [("table", (Path("out"), layout), {})]
    assert capsys.readouterr().out == "the table\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("swep a.py", "invalid choice: 'swep'"),
        ("sweep a.py --seeds 0", "'0' is not a whole number from 1 on"),
        ("sweep a.py --seeds many", "'many' is not a whole number from 1 on"),
        ("train a.py --data sick", "unrecognized arguments: --data sick"),
        ("table out --format html", "invalid choice: 'html'"),
        ("table out --config.model.blocks=2", "table takes no --config.model.blocks"),
        ("evaluate run --split dev --input file.tsv", "not allowed with argument"),
        ("predict run --input a.tsv", "the following arguments are required: --output"),
    ],
)
def test_wrong_usage_exits_with_2(launch, capsys, words, message):
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert not launch.calls


def _raising(error):
    def function(*_, **__):
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InputError("bad\nlabel", path="a.tsv", line=3, remedy="mend it"), 2, "jaxmatch: a.tsv:3: bad label; mend it\n"),
        (KeyboardInterrupt(), 130, "jaxmatch: interrupted; the same command goes on where it stopped\n"),
        (PermissionError(13, "Permission denied", "out"), 2, "jaxmatch: out: Permission denied\n"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_errors_are_one_line(launch, capsys, error, status, message):
    launch.sweep = _raising(error)
    assert main(["sweep", "a.py"]) == status
    assert capsys.readouterr() == ("", message)


def test_a_mistake_of_ours_keeps_its_traceback(launch):
    for error in (ValueError("ours"), OSError("ours")):
        launch.sweep = _raising(error)
        with pytest.raises(type(error), match="ours"):
            main(["sweep", "a.py"])


# The command as a process


def _command(*words, **named):
    package = str(Path(jaxmatch.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": package}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "jaxmatch", *map(str, words)], env=environment, capture_output=True, **named
    )


def test_help_names_every_subcommand_and_does_not_wait_for_jax():
    done = _command("--help", text=True)
    assert done.returncode == 0
    assert all(re.search(rf"\n    {name}\s", done.stdout) for name in SUBCOMMANDS)
    code = "import sys, jaxmatch.cli.main; print('jax' in sys.modules, 'nltk' in sys.modules)"
    package = str(Path(jaxmatch.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code], cwd=package, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_closed_output_is_no_complaint():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        package = str(Path(jaxmatch.__file__).parent.parent)
        code = (
            "import sys, types, jaxmatch.experiments as e; from jaxmatch.cli.main import main;"
            "e.launch = types.SimpleNamespace(table=lambda *_: 'a line'); sys.exit(main(['table', 'out']))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=package, stdout=writer, stderr=subprocess.PIPE, text=True
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


# predict

TEXTS = [("a b c", "no d"), ("a", "a"), ("e d c b a no a b c d e", 'new "york"'), ("unseen é", "c"), ("b", "b c")]


def _tsv(path, rows, header="text_a\ttext_b"):
    path.write_bytes("".join(f"{line}\n" for line in [header, *("\t".join(row) for row in rows)]).encode())
    return path


def _predict(run, source, target, *more):
    assert main(["predict", str(run), "--input", str(source), "--output", str(target), *more]) == 0
    return [json.loads(line) for line in Path(target).read_bytes().decode().split("\n")[:-1]]


def test_predict_answers_a_table_in_its_order(run, tmp_path):
    source = _tsv(tmp_path / "in.tsv", [(str(i), *pair) for i, pair in enumerate(TEXTS)], "id\ttext_a\ttext_b")
    answers = _predict(run, source, tmp_path / "out.jsonl")
    expected = jaxmatch.load(run).predict(TEXTS)
    assert [list(answer) for answer in answers] == [["id", "text_a", "text_b", "label", "probabilities"]] * len(TEXTS)
    for number, (answer, pair, prediction) in enumerate(zip(answers, TEXTS, expected, strict=True)):
        assert (answer["id"], answer["text_a"], answer["text_b"]) == (str(number), *pair)
        assert answer["label"] == prediction.label
        assert answer["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-6)


def test_predict_keeps_the_fields_of_json_lines(run, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK", 2)  # the order must hold across chunks
    rows = [
        {"text_b": b, "meta": {"n": [number, None, 1.5]}, "text_a": a, "label": "mine", "input_label": number}
        for number, (a, b) in enumerate(TEXTS)
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\r\n" for row in rows), encoding="utf-8-sig", newline="")
    answers = _predict(run, source, source)  # input and output may be one file
    for row, answer, prediction in zip(rows, answers, jaxmatch.load(run).predict(TEXTS), strict=True):
        label, probabilities = answer.pop("label"), answer.pop("probabilities")
        assert answer == {**{k: v for k, v in row.items() if k != "label"}, "input_input_label": "mine"}
        assert label == prediction.label
        assert sum(probabilities.values()) == pytest.approx(1)


def test_predict_gives_scores_in_a_regression(tmp_path):
    run = saved_model.save(tmp_path / "run", task="regression", labels=())
    answers = _predict(run, _tsv(tmp_path / "in.tsv", TEXTS), tmp_path / "out.jsonl")
    expected = jaxmatch.load(run).logits(TEXTS)[:, 0].tolist()
    assert [answer["score"] for answer in answers] == pytest.approx(expected, abs=1e-5)
    assert all(set(answer) == {"text_a", "text_b", "score"} for answer in answers)


@pytest.mark.parametrize("layout", ["tsv", "jsonl"])
def test_predict_is_a_filter_between_pipes(run, tmp_path, layout, monkeypatch, capfdbinary):
    if layout == "tsv":
        source = _tsv(tmp_path / "source", TEXTS)
    else:
        source = tmp_path / "source"
        source.write_text("".join(json.dumps({"text_a": a, "text_b": b}) + "\n" for a, b in TEXTS))
    with open(source) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["predict", str(run), "--input", "-", "--output", "-"]) == 0
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [(answer["text_a"], answer["text_b"]) for answer in answers] == TEXTS


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("in.tsv", b"text_a\ttext_b\na\tb\na\n", ":3: 1 columns where the header names 2"),
        ("in.tsv", b"text_a\ttext_b\na\tb\tc\n", ":2: 3 columns where the header names 2"),
        ("in.tsv", b"text_a\tlabel\na\tb\n", ":1: the header has no column text_b"),
        ("in.tsv", b"text_a\ttext_b\ttext_a\n", ":1: the header names column 'text_a' twice"),
        ("in.tsv", b"text_a\ttext_b\n \tb\n", ":2: text_a is empty"),
        ("in.tsv", b"text_a\ttext_b\na\t\xff\n", ":2: byte 0xFF"),
        ("in.tsv", b"text_a\ttext_b\na\tb\n\nc\td\n", ":3: a blank line between the pairs"),
        ("in.tsv", b"", ": the file is empty"),
        ("in.jsonl", b'{"text_a": "a", "text_b": "b"}\n{"text_a": "a"\n', ":2: not valid JSON"),
        ("in.jsonl", b'["a", "b"]\n', ":1: the line is not a JSON object but ['a', 'b']"),
        ("in.jsonl", b'{"text_a": "a"}\n', ":1: there is no text_b"),
        ("in.jsonl", b'{"text_a": "a", "text_b": 3}\n', ":1: text_b is 3, not a text"),
        ("in.jsonl", b'{"text_a": "a", "text_b": "b", "x": NaN}\n', ":1: not valid JSON"),
        ("in.jsonl", b'{"text_a": "a", "text_b": "\\ud800"}\n', ":1: an escape \\uD800 to \\uDFFF without"),
        ("in.jsonl", b"[" * 200_000 + b"\n", ":1: the JSON is nested too deeply"),
    ],
)
@pytest.mark.parametrize("earlier", [None, "earlier answers\n"])
def test_a_malformed_line_is_named_and_nothing_is_written(run, tmp_path, capsys, name, content, problem, earlier):
    source, target = tmp_path / name, tmp_path / "out.jsonl"
    source.write_bytes(content)
    if earlier:
        target.write_text(earlier)
    assert main(["predict", str(run), "--input", str(source), "--output", str(target)]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"jaxmatch: {source}{problem}") and err.count("\n") == 1
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name] + ["out.jsonl"] * bool(earlier))
    assert not earlier or target.read_text() == earlier


def test_a_bad_line_late_in_a_pipe_leaves_no_half_file(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(predict, "CHUNK", 2)
    source = _tsv(tmp_path / "source", [*TEXTS, ("alone",)])
    target = tmp_path / "out.jsonl"
    with open(source) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["predict", str(run), "--input", "-", "--output", str(target)]) == 2
    assert capsys.readouterr().err.startswith("jaxmatch: standard input:7: 1 columns")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_missing_input_and_missing_run_are_one_line(run, tmp_path, capsys):
    assert main(["predict", str(run), "--input", str(tmp_path / "no.tsv"), "--output", "-"]) == 2
    assert capsys.readouterr().err == f"jaxmatch: {tmp_path}/no.tsv: there is no such file\n"
    source = _tsv(tmp_path / "in.tsv", TEXTS)
    assert main(["predict", str(tmp_path), "--input", str(source), "--output", "-"]) == 2
    assert "holds no model" in capsys.readouterr().err


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.fixed_dictionaries({"text_a": TEXT, "text_b": TEXT}, optional={"id": st.integers() | TEXT}), min_size=1))
def test_any_json_lines_are_read_back(rows):
    raw = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows]
    assert list(read_pairs(raw, "in")) == list(enumerate(rows, start=1))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=30)), st.sampled_from(["tsv", "jsonl", None]))
def test_any_bytes_are_read_or_refused_with_a_line(lines, layout):
    raw = [line.replace(b"\n", b"") + b"\n" for line in [b"text_a\ttext_b", *lines]]
    try:
        assert all(isinstance(fields["text_a"], str) for _, fields in read_pairs(raw, "in", layout))
    except InputError as error:
        assert 1 <= error.line <= len(raw)


# evaluate


def test_evaluate_scores_a_file(run, tmp_path, capsys):
    labels = ["neutral", "entailment", "contradiction", "neutral", "neutral"]
    source = _tsv(tmp_path / "in.tsv", [(*pair, label) for pair, label in zip(TEXTS, labels, strict=True)], "text_a\ttext_b\tlabel")
    assert main(["evaluate", str(run), "--input", str(source), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    indices = np.array([saved_model.LABELS.index(label) for label in labels])
    expected = score("classification", indices, jaxmatch.load(run).logits(TEXTS), label_names=saved_model.LABELS)
    assert answer["scores"] == pytest.approx(expected)
    assert answer["pairs"] == 5
    hits = [one.label == label for one, label in zip(jaxmatch.load(run).predict(TEXTS), labels, strict=True)]
    assert answer["scores"]["accuracy"] == pytest.approx(sum(hits) / 5)


def test_evaluate_ranks_within_groups(tmp_path, capsys):
    run = saved_model.save(tmp_path / "run", task="ranking", labels=("0", "1"))
    logits = jaxmatch.load(run).logits(TEXTS)
    best = int(np.argmax(logits[:4, 1] - logits[:4, 0]))  # of the first four; the fifth is a group of its own
    rows = [(*pair, "01"[i == best], "q1" if i < 4 else "q2") for i, pair in enumerate(TEXTS)]
    source = _tsv(tmp_path / "in.tsv", rows, "text_a\ttext_b\tlabel\tgroup")
    assert main(["evaluate", str(run), "--input", str(source), "--format", "json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert (scores["map"], scores["mrr"]) == (1.0, 1.0)


def test_evaluate_names_the_line_of_an_unknown_label(run, tmp_path, capsys):
    source = _tsv(tmp_path / "in.tsv", [("a", "b", "neutral"), ("a", "b", "maybe")], "text_a\ttext_b\tlabel")
    assert main(["evaluate", str(run), "--input", str(source)]) == 2
    assert capsys.readouterr().err.startswith(f"jaxmatch: {source}:3: ")


def test_evaluate_reads_the_split_it_was_trained_beside(tmp_path, data_folder, capsys, monkeypatch):
    """A model that always says NEUTRAL is right as often as the official file says NEUTRAL."""
    from jaxmatch.data.catalog import CATALOG

    monkeypatch.setenv("JAXMATCH_DATA", str(data_folder))
    labels = CATALOG["sick"].labels
    parameters = saved_model.parameters(len(labels))
    parameters["prediction"]["output"]["bias"] = 1e6 * np.array([label == "neutral" for label in labels], np.float32)
    config = {"data": {"name": "sick", "directory": "", "task": ""}}
    run = saved_model.save(tmp_path / "run", labels=labels, params=parameters, config=config)
    assert main(["evaluate", str(run), "--split", "dev"]) == 0
    said, accuracy, *_ = capsys.readouterr().out.splitlines()
    rows = (data_folder / "SICK" / "SICK_trial.txt").read_text().splitlines()[1:]
    share = sum(row.split("\t")[4].strip() == "NEUTRAL" for row in rows) / len(rows)
    assert said == f"sick dev: {len(rows):,} pairs"
    assert accuracy.split() == ["accuracy", f"{share:.4f}"]


def test_evaluate_reads_own_data_without_its_training_file(tmp_path, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    _tsv(folder / "dev.tsv", [("a b", "c", "2.5"), ("d", "no e", "-1"), ("a", "a", "4")], "text_a\ttext_b\tlabel")
    config = {"data": {"name": "own", "directory": str(folder), "task": "regression"}}
    run = saved_model.save(tmp_path / "run", task="regression", labels=(), config=config)
    assert main(["evaluate", str(run), "--split", "dev", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    logits = jaxmatch.load(run).logits([("a b", "c"), ("d", "no e"), ("a", "a")])[:, 0]
    assert answer["data"] == "own dev"
    assert answer["scores"]["pearson"] == pytest.approx(np.corrcoef(logits, [2.5, -1, 4])[0, 1], abs=1e-5)
    assert main(["evaluate", str(run)]) == 2
    assert "has no test file: looked for test.tsv or test.jsonl" in capsys.readouterr().err


# data


def test_data_check_reports_a_folder_of_ones_own(tmp_path, capsys):
    _tsv(tmp_path / "train.tsv", [("a", "b", "x"), ("a", "c", "y"), ("d", "b", "y")], "text_a\ttext_b\tlabel")
    assert main(["data", "check", "own", "--data-directory", str(tmp_path)]) == 0
    assert "own: classification, labels x, y" in capsys.readouterr().out


def test_data_check_knows_a_misspelt_name(capsys):
    assert main(["data", "check", "wikiq"]) == 2
    err = capsys.readouterr().err
    assert "wikiqa" in err and err.count("\n") == 1
