"""The command line: arguments are passed on, and each error is reported in one line."""

import io
import types
from pathlib import Path
from unittest import mock

import jax
import pytest
from rich.console import Console
from saved_model import TEXTS, write_tsv

import jaxmatch
import jaxmatch.papers.timing  # imports the real launcher now, so that it does not replace the fake one later
from jaxmatch.analysis import attention, occlusion
from jaxmatch.cli.common import open_whole
from jaxmatch.cli.main import Terminated, main, parse
from jaxmatch.errors import InputError
from jaxmatch.inference import matcher
from jaxmatch.reporting import report
from jaxmatch.sweep.display import Display


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
    monkeypatch.setattr("jaxmatch.cli.analyses.run_analyses", lambda *_: None)
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
    ((name, files, arguments),) = launch.calls
    assert (name, files) == ("sweep", (Path("sweeps/free.py"),))
    assert arguments == {
        **{"workdir": Path("out"), "seeds": 3, "dry_run": True, "command": f"jaxmatch {words}"},
        **{"overrides": {"model.blocks": "2"}, "grid_overrides": {"optimizer.learning_rate": "1e-3,2e-3"}},
        "options": {"data_directory": "../data", "vectors": "glove.zip"},
        **{"smoke": False, "log": [], "engine": None, "baselines": None},
    }
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
        ("rank run --input a.txt --query \t", "the text is empty or not UTF-8"),
        ("inspect run --pair a \udcff", "the text is empty or not UTF-8"),
        ("train re2 --workdir=", "argument --workdir: '' cannot be a folder on this machine"),
        ("train re2 --workdir s3://bucket", "'s3://bucket' cannot be a folder on this machine"),
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


INVALID = InputError("bad\nlabel", path="a.tsv", line=3, remedy="fix it")
NO_MEMORY = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
NO_DEVICE = RuntimeError("Unable to initialize backend 'cuda': no")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (INVALID, 2, "a.tsv:3: bad label; fix it"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command to resume"),
        (Terminated(), 143, "terminated; run the same command to resume"),
        (PermissionError(13, "Permission denied", b"a\x1b.json"), 2, "a\\x1b.json: Permission denied"),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left"), 2, "No space left"),
        (MemoryError(), 2, "out of memory; free some, or use a smaller batch"),
        (NO_MEMORY, 2, "out of device memory; free some, shorten long texts, or use a smaller batch"),
        (NO_DEVICE, 2, "JAX finds no device of the requested kind; set JAX_PLATFORMS=cpu, or fix"),
    ],
)
def test_known_errors_exit_with_their_status_and_at_most_one_line(launch, capsys, error, status, message):
    launch.sweep = _raising(error)
    assert main(["sweep", "a.py"]) == status
    out, err = capsys.readouterr()
    assert not out and err.startswith(f"jaxmatch: {message}" if message else "") and err.count("\n") == bool(message)


def test_unexpected_exceptions_are_not_caught(launch):
    for error in (ValueError("ours"), OSError("ours"), RuntimeError("ours")):
        launch.sweep = _raising(error)
        with pytest.raises(type(error), match="ours"):
            main(["sweep", "a.py"])


def test_the_magic_splits_words_as_a_shell_and_raises_an_error_if_the_command_fails(monkeypatch, tmp_path):
    from IPython.core.error import UsageError

    shell, seen = mock.Mock(), []
    jaxmatch.load_ipython_extension(shell)
    (magic,) = shell.register_magic_function.call_args.args
    assert shell.register_magic_function.call_args.kwargs == {"magic_name": "jaxmatch"}
    monkeypatch.chdir(tmp_path)
    for line in ("table no-such-folder", "no-such-command"):
        with pytest.raises(UsageError, match="ended with status 2"):
            magic(line)
    monkeypatch.setattr("jaxmatch.cli.main.main", lambda words: seen.append(words) or 0)
    assert magic("inspect runs/a --pair \"a man\" 'no one'") is None
    assert seen == [["inspect", "runs/a", "--pair", "a man", "no one"]]


def test_progress_in_a_notebook_goes_to_stderr_as_lines(monkeypatch, capsys):
    """Otherwise rich would print HTML instead of writing to the file, or draw a bar if FORCE_COLOR is set."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(file=io.StringIO()).is_jupyter and Console(file=io.StringIO(), force_jupyter=False).is_terminal
    display = Display()
    assert not display.console.is_jupyter and not display.console.is_terminal
    display.say("cohort 1: done")
    assert capsys.readouterr().err == "cohort 1: done\n"


def test_output_can_be_written_to_a_text_only_stdout(monkeypatch):
    """The standard output of a notebook is a text stream without a binary buffer."""

    class Cell(io.TextIOBase):
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

    cell = Cell()
    monkeypatch.setattr("sys.stdout", cell)
    with open_whole("-") as output:
        output.write('{"text": "ein Maß"}\n'.encode())
        output.flush()
    assert cell.text == '{"text": "ein Maß"}\n'


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


@pytest.mark.parametrize(
    "command", [["predict", "--input"], ["rank", "--query", "a", "--input"], ["search", "--query", "a", "--texts"]]
)
def test_an_output_that_is_the_input_is_refused(run, tmp_path, capsys, no_compute, command):
    source, link = write_tsv(tmp_path / "same.tsv", TEXTS), tmp_path / "link"
    link.symlink_to(source)
    before = source.read_bytes()
    for read, written in ((source, link), (link, source)):
        message = refused(capsys, command[0], run, *command[1:], read, "--output", written)
        assert message == f"{written}: this is also the input; give --output another name"
    assert source.read_bytes() == before


@pytest.mark.parametrize("command", ["predict", "report"])
def test_unwritable_output_is_refused_before_computation(run, tmp_path, capsys, no_compute, command):
    words = [command, run] + (["--input", write_tsv(tmp_path / "a.tsv", TEXTS)] if command == "predict" else [])
    assert refused(capsys, *words, "--output", tmp_path) == f"{tmp_path}: Is a directory"
    absent = tmp_path / "absent" / "x"
    assert refused(capsys, *words, "--output", absent) == f"{absent}: No such file or directory"
    assert not absent.parent.exists()


@pytest.mark.parametrize("command", ["inspect", "occlusion", "figure", "export", "search"])
def test_file_given_as_output_folder_is_refused_before_computation(run, tmp_path, capsys, no_compute, command):
    file = write_tsv(tmp_path / "x.tsv", TEXTS)
    words = {"export": ["--format", "onnx"], "search": ["--texts", file]}.get(command, [])
    option = "--save" if command == "search" else "--output"
    for output in (file, file / "below"):
        message = refused(capsys, command, run, *words, option, output)
        assert message.startswith(f"argument {option}: '{output}' cannot be a folder on this machine")


@pytest.mark.parametrize("command", ["table", "report", "ensemble", "predict"])
def test_sweep_folder_that_is_a_file_or_missing_is_refused(tmp_path, capsys, command):
    file = write_tsv(tmp_path / "x.tsv", TEXTS)
    more = ["--best", "--input", file] if command == "predict" else []
    for folder in (file, tmp_path / "nope"):
        assert refused(capsys, command, folder, *more).startswith(str(folder))


def test_input_that_is_a_folder_or_missing_is_refused(run, tmp_path, capsys):
    for command in (["predict"], ["rank", "--query", "a"]):
        words = [*command, run, "--input"]
        assert refused(capsys, *words, tmp_path) == f"{tmp_path}: Is a directory"
        assert refused(capsys, *words, tmp_path / "no.tsv") == f"{tmp_path}/no.tsv: No such file or directory"
    source = write_tsv(tmp_path / "in.tsv", TEXTS)
    assert "holds no model" in refused(capsys, "predict", tmp_path, "--input", source)
