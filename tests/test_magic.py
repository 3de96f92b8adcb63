"""`%jaxmatch` runs the command in the notebook's process, and a failure prints one line and stops the cells."""

import io

import pytest
from rich.console import Console

import jaxmatch
from jaxmatch.cli.common import open_whole
from jaxmatch.sweep.display import Display


class Shell:
    """The part of IPython that an extension uses."""

    def register_magic_function(self, function, magic_kind, magic_name):
        self.registered = (function, magic_kind, magic_name)


@pytest.fixture
def command():
    """The command as `%load_ext jaxmatch` registers it."""
    shell = Shell()
    jaxmatch.load_ipython_extension(shell)
    function, kind, name = shell.registered
    assert (kind, name) == ("line", "jaxmatch")
    return function


def test_words_are_split_as_in_a_shell(command, monkeypatch):
    seen = []
    monkeypatch.setattr("jaxmatch.cli.main.main", lambda words: seen.append(words) or 0)
    assert command("inspect runs/a --pair \"a man\" 'no one'") is None
    assert seen == [["inspect", "runs/a", "--pair", "a man", "no one"]]


def test_failed_command_raises_usage_error(command, tmp_path, monkeypatch):
    from IPython.core.error import UsageError

    monkeypatch.chdir(tmp_path)
    for line in ("table no-such-folder", "no-such-command"):
        with pytest.raises(UsageError, match="ended with status 2"):
            command(line)


def test_progress_in_a_notebook_goes_to_stderr_as_lines(monkeypatch, capsys):
    """Otherwise rich would print HTML instead of writing to the file, or draw a bar if FORCE_COLOR is set."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(file=io.StringIO()).is_jupyter and Console(file=io.StringIO(), force_jupyter=False).is_terminal
    display = Display()
    assert not display.console.is_jupyter and not display.console.is_terminal
    display.best({"dev": {"accuracy": 0.5}, "selected_on": "dev.accuracy", "seed": 1}, "runs/a")
    assert capsys.readouterr().err == "best on dev: runs/a (dev.accuracy 0.5000, seed 1)\n"


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
