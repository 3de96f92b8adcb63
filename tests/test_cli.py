"""The command line: arguments are passed on, and each error is reported in one line."""

import sys
import types
from pathlib import Path

import jax
import pytest
from saved_model import write_tsv

import jaxmatch
import jaxmatch.papers.timing  # imports the real launcher now, so that it does not replace the fake one later
from jaxmatch.cli.common import take_dotted
from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.reporting import FORMATS


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
    return fake


@pytest.mark.parametrize(
    ("words", "rest", "config", "grid"),
    [
        (["sweep", "a.py"], ["sweep", "a.py"], {}, {}),
        (["--config.model.blocks=3", "sweep"], ["sweep"], {"model.blocks": "3"}, {}),
        (["--config.model.blocks", "3", "sweep"], ["sweep"], {"model.blocks": "3"}, {}),
        (["--config.optimizer.l2_penalty", "-1"], [], {"optimizer.l2_penalty": "-1"}, {}),
        (["--config.data.vectors=a=b"], [], {"data.vectors": "a=b"}, {}),
        (["--config.data.vectors="], [], {"data.vectors": ""}, {}),
        (["--config.seed=1", "--config.seed=2"], [], {"seed": "2"}, {}),
        (["--grid.model.blocks=1,2", "--config.x=1"], [], {"x": "1"}, {"model.blocks": "1,2"}),
        (["predict", "--", "--config.x=1"], ["predict", "--", "--config.x=1"], {}, {}),
        (["--config", "x", "--configuration.x=1"], ["--config", "x", "--configuration.x=1"], {}, {}),
    ],
)
def test_dotted_options_are_separated_from_the_other_arguments(words, rest, config, grid):
    assert take_dotted(words) == (rest, {"config": config, "grid": grid, "space": {}})
    space = {"model.blocks": "1:3", "optimizer.learning_rate": "log:1e-4:1e-2"}
    given = [f"--space.{name}={text}" for name, text in space.items()]
    assert take_dotted([*given, *words]) == (rest, {"config": config, "grid": grid, "space": space})


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--config.=1", "--config. has no name"),
        ("--config.model..blocks=1", "has no name"),
        ("--config.model.blocks", "--config.model.blocks has no value; write it like --config."),
        ("--grid.model.blocks", "--grid.model.blocks has no value; write it like --grid."),
    ],
)
def test_dotted_options_without_a_name_or_value_are_errors(word, message):
    for more in ([], ["--vectors", "hashed"]):  # an option is not a value
        with pytest.raises(InputError, match=message):
            take_dotted(["sweep", word, *more])


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
                "floors": None,
                "command": f"jaxmatch {words}",
            },
        )
    ]
    assert capsys.readouterr().out == "the sweep"


def test_options_of_the_sweep_file_are_passed_to_the_launcher(launch, capsys):
    assert main("sweep a.py --data sick --short-run=yes --workdir out --vectors v.txt".split()) == 0
    assert launch.calls[0][2]["options"] == {"data": "sick", "short_run": "yes", "vectors": "v.txt"}
    for words, message in (
        ("--dry", "--dry is not an option of the command, or has no value"),
        ("b.py", "'b.py' is not"),
    ):
        assert main(["sweep", "a.py", *words.split()]) == 2
        assert f"jaxmatch: {message}" in capsys.readouterr().err
    assert len(launch.calls) == 1


@pytest.mark.parametrize(
    ("word", "suggestion"),
    [
        ("--data.split=0.8/0.2", "--config.data.split"),
        ("--modle.blocks=2", "--config.model.blocks"),
        ("--gird.model.blocks=1,2", "--grid.model.blocks"),
        ("--data_directory=data", "--data-directory"),
        ("--split_seed=1", "--split-seed"),
    ],
)
def test_a_misspelt_setting_or_option_gets_a_suggestion(launch, capsys, word, suggestion):
    assert main(["train", "a.py", word]) == 2 and not launch.calls
    assert f'did you mean "{suggestion}"?' in capsys.readouterr().err


def test_a_missing_import_file_is_reported_in_one_line(capsys):
    for words in (["--import", "nofile.py"], ["--import=nofile.py"]):
        assert main([*words, "table", "out"]) == 2
        expected = "jaxmatch: nofile.py: there is no such file; give a Python file or a module\n"
        assert capsys.readouterr().err == expected


def test_train_passes_its_defaults_to_the_launcher(launch, capsys):
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
                "log": [],
                "engine": None,
                "floors": None,
                "command": "jaxmatch train configs/re2_snli.py",
            },
        )
    ]
    assert capsys.readouterr().out == "the train"


def test_options_of_a_config_are_passed_on_and_name_the_workdir(launch):
    assert main("train configs/re2.py --dataset sick".split()) == 0
    assert (launch.calls[0][2]["workdir"], launch.calls[0][2]["options"]) == (
        Path("runs/re2_sick"),
        {"dataset": "sick"},
    )


def test_a_smoke_run_has_a_separate_workdir(launch):
    assert main(["sweep", "a.py", "--smoke"]) == 0
    assert (launch.calls[0][2]["workdir"], launch.calls[0][2]["smoke"]) == (Path("runs/a-smoke"), True)


@pytest.mark.parametrize("layout", FORMATS)
def test_table_prints_the_records(launch, capsys, layout, tmp_path):
    assert main(["table", str(tmp_path), "--format", layout]) == 0
    assert launch.calls == [("table", (tmp_path, layout), {})]
    assert capsys.readouterr().out == "the table"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("swep a.py", "there is no command 'swep'; did you mean"),
        ("sweep a.py --seeds 0", "'0' is not a whole number from 1 on"),
        ("sweep a.py --seeds many", "'many' is not a whole number from 1 on"),
        ("table out --format html", "invalid choice: 'html'"),
        ("table out --config.model.blocks=2", "table takes no --config.model.blocks\n"),
        ("data check own --config.data.task=ranking", "data takes no --config.data.task; give --task\n"),
        ("evaluate run --split dev --input file.tsv", "not allowed with argument"),
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
        (
            InputError("bad\nlabel", path="a.tsv", line=3, remedy="fix it"),
            2,
            "jaxmatch: a.tsv:3: bad label; fix it\n",
        ),
        (KeyboardInterrupt(), 130, "jaxmatch: interrupted; run the same command to resume\n"),
        (PermissionError(13, "Permission denied", "out"), 2, "jaxmatch: out: Permission denied\n"),
        (BrokenPipeError(), 141, ""),
        (
            OSError(28, "No space left", "a.json"),
            2,
            "jaxmatch: a.json: No space left; make room, and run the same command again\n",
        ),
        (OSError(28, "No space left"), 2, "jaxmatch: No space left; make room, and run the same command again\n"),
        (
            OSError(122, "Disk quota exceeded", "a.json"),
            2,
            "jaxmatch: a.json: Disk quota exceeded; make room, or have the quota raised, and run the same command "
            "again\n",
        ),
        (
            OSError(27, "File too large", b"a\x1b.json"),
            2,
            "jaxmatch: a\\x1b.json: File too large; raise the limit of a file's size (ulimit -f), and run the same "
            "command again\n",
        ),
        (
            MemoryError(),
            2,
            "jaxmatch: out of memory; free some, or use a smaller batch\n",
        ),
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


def test_data_check_reports_user_defined_data(tmp_path, capsys):
    write_tsv(tmp_path / "train.tsv", [("a", "b", "x"), ("a", "c", "y"), ("d", "b", "y")], "text_a\ttext_b\tlabel")
    assert main(["data", "check", "own", "--data-directory", str(tmp_path)]) == 0
    assert "own: classification, labels x, y" in capsys.readouterr().out


def test_data_check_suggests_the_nearest_data_set_name(capsys):
    assert main(["data", "check", "wikiq"]) == 2
    err = capsys.readouterr().err
    assert "wikiqa" in err and err.count("\n") == 1


def test_a_closed_standard_output_is_an_error_before_the_launch(launch, monkeypatch, capsys):
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        assert main(["sweep", "a.py"]) == 2
    assert (
        capsys.readouterr().err == "jaxmatch: standard output is closed; give it a file or a pipe; /dev/null will do\n"
    )
    assert not launch.calls


def test_control_characters_in_error_messages_are_escaped(launch, capsys):
    option, choice, command, setting = "--x\x1b[2J\n\u202e", "\x1b]0;\x07", "\x9b", "--config.\x1b.=1"
    no_folder = ["train", "a.py", "--workdir", "s3://\x1b[2J"]
    wrong = ["train", "a.py", option], ["table", "a", "--format", choice], [command], ["train", setting], no_folder
    for words in wrong:
        try:
            assert main(words) == 2
        except SystemExit as end:
            assert end.code == 2
        err = capsys.readouterr().err
        assert not set(err) & set("\x1b\x07\x9b\u202e") and "\\x" in err
