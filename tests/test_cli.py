"""The command line: arguments are passed on, and each error is reported in one line."""

import types
from pathlib import Path

import jax
import pytest

import jaxmatch
import jaxmatch.papers.timing  # imports the real launcher now, so that it does not replace the fake one later
from jaxmatch.cli.main import Terminated, main, parse
from jaxmatch.errors import InputError


@pytest.fixture
def launch(monkeypatch):
    """A fake jaxmatch.sweep.launch that records its calls."""
    calls = []

    def note(name):
        def function(*positional, **named):
            calls.append((name, positional, named))
            return f"the {name}"

        return function

    fake = types.SimpleNamespace(calls=calls, **{name: note(name) for name in ("sweep", "train", "table")})
    monkeypatch.setattr(jaxmatch.sweep, "launch", fake, raising=False)
    monkeypatch.setattr("jaxmatch.reporting.table.folder_table", fake.table)
    monkeypatch.setattr("jaxmatch.reporting.verdict.verdict_lines", lambda folder: [f"use {folder}"])
    return fake


@pytest.mark.parametrize(
    ("words", "config", "grid", "options"),
    [
        (["--config.model.blocks=3"], {"model.blocks": "3"}, {}, {}),
        (["--config.optimizer.l2_penalty", "-1"], {"optimizer.l2_penalty": "-1"}, {}, {}),
        (["--config.data.vectors=a=b", "--config.x="], {"data.vectors": "a=b", "x": ""}, {}, {}),
        (["--config.seed=1", "--config.seed=2"], {"seed": "2"}, {}, {}),
        (["--grid.model.blocks=1,2", "--data", "sick"], {}, {"model.blocks": "1,2"}, {"data": "sick"}),
        (["--short-run=yes", "--config.x=1"], {"x": "1"}, {}, {"short_run": "yes"}),
    ],
)
def test_dotted_options_and_those_of_the_file_are_taken_from_the_words(words, config, grid, options):
    parsed = parse(["tune", "a.py", "--space.model.blocks=1:3", *words, "--seeds=2", "--import", "mine.py"])
    assert parsed.dotted == {"config": config, "grid": grid, "space": {"model.blocks": "1:3"}}
    assert (parsed.options, parsed.imports, parsed.seeds) == (options, ["mine.py"], 2)


def test_sweep_passes_all_arguments_to_the_launcher(launch, capsys):
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
                "log": [],
                "engine": None,
                "baselines": None,
                "command": f"jaxmatch {words}",
            },
        )
    ]
    assert capsys.readouterr().out == "the sweep"


def test_options_of_a_config_and_smoke_name_the_workdir(launch):
    assert main("train configs/re2.py --dataset sick".split()) == 0
    assert main(["sweep", "a.py", "--smoke"]) == 0
    (_, _, first), (_, _, second) = launch.calls
    assert (first["workdir"], first["options"]) == (Path("runs/re2_sick"), {"dataset": "sick"})
    assert (second["workdir"], second["smoke"]) == (Path("runs/a-smoke"), True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--import mine", "the following arguments are required: COMMAND"),
        ("swep a.py", "invalid choice: 'swep'"),
        ("sweep a.py --seeds 0", "argument --seeds: '0' is not a whole number from 1 on; see jaxmatch sweep --help"),
        ("sweep a.py --seeds many", "'many' is not a whole number from 1 on"),
        ("sweep a.py b.py", "sweep takes no b.py"),
        ("sweep a.py --dry", "--dry has no value"),
        ("sweep a.py --config.model.blocks", "--config.model.blocks has no value"),
        ("sweep a.py --config.model.blocks --config.x=1", "--config.model.blocks has no value"),
        ("sweep a.py --config.=1", "sweep takes no --config."),
        ("sweep a.py --space.model.blocks=1:3", "sweep takes no --space.model.blocks"),
        ("table out --format html", "invalid choice: 'html'"),
        ("table out --config.model.blocks=2", "table takes no --config.model.blocks"),
        ("table out --nothing 3", "table takes no --nothing"),
        ("evaluate run --split dev --input file.tsv", "not allowed with argument"),
        ("timing a.py --batches 1", "'1' is not a whole number from 2 on"),
        ("tune a.py --halving --eta 1", "'1' is not a whole number from 2 on"),
        ("tune a.py --halving --rungs 3,x", "'x' is not a whole number from 1 on"),
        ("rank run --input a.txt --query \t", "the text is empty"),
        ("train re2 --workdir=", "argument --workdir: it has no name"),
        ("train re2 --workdir s3://bucket", "s3://bucket cannot be a folder on this machine"),
        ("evaluate run --input=", "argument --input: it has no name"),
        ("--import nofile.py table out", "nofile.py: there is no such file"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(launch, capsys, words, message):
    assert main(words.split(" ")) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("jaxmatch: ") and message in err and err.count("\n") == 1
    assert not launch.calls


def _raising(error):
    def function(*_, **__):
        raise error

    return function


def test_the_command_alone_prints_the_help_on_standard_error(capsys):
    assert main([]) == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.startswith("usage: jaxmatch") and "train one config" in printed.err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            InputError("bad\nlabel", path="a.tsv", line=3, remedy="fix it"),
            2,
            "jaxmatch: a.tsv:3: bad label; fix it\n",
        ),
        (KeyboardInterrupt(), 130, "jaxmatch: interrupted; run the same command to resume\n"),
        (Terminated(), 143, "jaxmatch: terminated; run the same command to resume\n"),
        (PermissionError(13, "Permission denied", b"a\x1b.json"), 2, "jaxmatch: a\\x1b.json: Permission denied\n"),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left"), 2, "jaxmatch: No space left\n"),
        (MemoryError(), 2, "jaxmatch: out of memory; free some, or use a smaller batch\n"),
        (
            jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
            2,
            "jaxmatch: out of device memory; free some, shorten long texts, or use a smaller batch\n",
        ),
        (
            RuntimeError("Unable to initialize backend 'cuda': no"),
            2,
            "jaxmatch: JAX finds no device of the requested kind; set JAX_PLATFORMS=cpu, or fix what keeps JAX from "
            "using it\n",
        ),
    ],
)
def test_known_errors_exit_with_their_status_and_at_most_one_line(launch, capsys, error, status, message):
    launch.sweep = _raising(error)
    assert main(["sweep", "a.py"]) == status
    assert capsys.readouterr() == ("", message)


def test_unexpected_exceptions_are_not_caught(launch):
    for error in (ValueError("ours"), OSError("ours"), RuntimeError("ours")):
        launch.sweep = _raising(error)
        with pytest.raises(type(error), match="ours"):
            main(["sweep", "a.py"])


def test_control_characters_in_error_messages_are_escaped(launch, capsys):
    option, choice, command, setting = "--x\x1b[2J\n\u202e", "\x1b]0;\x07", "\x9b", "--config.\x1b.=1"
    no_folder = ["train", "a.py", "--workdir", "s3://\x1b[2J"]
    for words in (
        ["train", "a.py", option],
        ["table", "a", "--format", choice],
        [command],
        ["train", "a.py", setting],
        no_folder,
    ):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert not set(err) & set("\x1b\x07\x9b\u202e") and "\\x" in err
