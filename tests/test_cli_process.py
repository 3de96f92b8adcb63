"""The command as a process: its help, its locale, interrupts, and an output that is closed, full or limited."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import small_sweep

import jaxmatch
from jaxmatch.cli.main import SUBCOMMANDS

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "results" / "quickstart"
COMMAND = ("-W", "error", "-m", "jaxmatch")
# The command with a page and a table that take no time to draw.
FAKE = (
    *COMMAND[:2],
    "-c",
    "import sys; from jaxmatch.cli.main import main; from jaxmatch.reporting import report, table\n"
    "report.report = lambda *_: 'page ' * 9999; table.folder_table = lambda *_: 'a line'\n"
    "sys.exit(main(sys.argv[1:]))",
)
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")


def run_python(*words, variables=(), **named):
    """Runs Python with the arguments `words` and returns the completed process. `named` goes to `subprocess.run`."""
    environment = {**os.environ, "PYTHONPATH": str(Path(jaxmatch.__file__).parent.parent), **dict(variables)}
    named = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120} | named
    return subprocess.run([sys.executable, *map(str, words)], env=environment, **named)


def test_help_lists_every_subcommand():
    done = run_python(*COMMAND, "--help")
    assert done.returncode == 0
    assert all(re.search(rf"\n    {name}\s", done.stdout) for name in SUBCOMMANDS)


def test_output_is_utf_8_in_every_locale():
    variables = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run_python(*COMMAND, "table", QUICKSTART, variables=variables, text=False)
    assert done.returncode == 0, done.stderr
    assert " ± " in done.stdout.decode("utf-8") and "0–2" in done.stdout.decode("utf-8")


def test_a_broken_output_pipe_exits_with_141_and_no_message():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run_python(*FAKE, "table", ".", stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_standard_error_loses_only_the_messages(small_files, tmp_path):
    words = [sys.executable, *COMMAND, *small_sweep.command(small_files, tmp_path / "runs", "--dry-run")]
    closed = "import os, sys; os.close(2); os.execv(sys.argv[1], sys.argv[1:])"
    done = run_python("-c", closed, *words)
    assert (done.returncode, done.stdout) == (0, "")


@needs_full
@pytest.mark.parametrize("words", [["table", "."], ["report", ".", "--output", "-"]])
def test_a_full_output_device_is_reported_in_one_line(words):
    with open("/dev/full", "wb") as full:
        done = run_python(*FAKE, *words, stdout=full)
    assert (done.returncode, done.stderr) == (2, "jaxmatch: standard output: No space left on device\n")


@needs_full
def test_a_failing_command_does_not_also_report_a_full_output_device():
    code = (
        "import sys; from jaxmatch.cli.main import main; from jaxmatch.errors import InputError; from "
        "jaxmatch.reporting import table as reporting\n"
        "def table(*_): print('a line'); raise InputError('it fails')\n"
        "reporting.folder_table = table; sys.exit(main(['table', '.']))"
    )
    with open("/dev/full", "wb") as full:
        done = run_python("-c", code, stdout=full, variables={"PYTHONUNBUFFERED": ""})  # empty counts as not set
    assert (done.returncode, done.stderr) == (2, "jaxmatch: it fails\n")


def test_interrupt_in_a_garbage_collector_callback_is_raised_again():
    code = """
import gc, os, signal, time
from jaxmatch.cli.main import raise_lost_interrupts

def interrupted(phase, info):
    gc.callbacks.remove(interrupted)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)

raise_lost_interrupts()
gc.callbacks.append(interrupted)
gc.callbacks.append(lambda *_: 1 / 0)  # is still reported
try:
    gc.collect()
    time.sleep(0.5)
    print("lost")
except KeyboardInterrupt:
    print("caught")
"""
    done = run_python("-c", code)
    assert done.stdout == "caught\n" and "ZeroDivisionError" in done.stderr and "KeyboardInterrupt" not in done.stderr


@pytest.mark.parametrize("status, printed", [(130, "said\n"), (143, "said\n"), (0, "said\ntaken down\n")])
def test_exit_handlers_are_skipped_only_after_an_interrupt(status, printed):
    # After an interrupt, JAX may still compute in its threads, so Python must not shut down as usual.
    program = (
        "import atexit, jax; from jaxmatch.cli.main import exit_if_needed; atexit.register(print, 'taken down');"
        f"print('said'); exit_if_needed({status})"
    )
    done = run_python("-c", program)
    assert (done.returncode, done.stdout) == (status, printed)


KILL = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.5)\n"


@pytest.mark.parametrize("where", ["of the command", "of the user"])
def test_interrupt_during_an_import_prints_one_line(tmp_path, where):
    name, words = ("shlex.py", ()) if where == "of the command" else ("mine.py", ("--import", "mine"))
    (tmp_path / name).write_text(KILL + "raise SystemExit('it goes on')")
    done = run_python("-m", "jaxmatch", "table", ".", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "jaxmatch: interrupted\n")


ABLATION = ROOT / "results" / "sick_ablation"


def modules_after(*words):
    """Returns the modules that a command has imported when it ends."""
    code = f"import sys; from jaxmatch.cli.main import main\ntry: main({list(words)})\nexcept SystemExit: pass\n"
    done = run_python("-c", code + "print('\\n', *sys.modules)")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sweep", "--help"], ["predict", "--help"]])
def test_help_imports_nothing_heavy(words):
    assert not modules_after(*words) & {"jax", "numpy", "scipy", "nltk", "rich", "ml_collections", "flax"}


@pytest.mark.parametrize("format", ["markdown", "latex", "csv", "json"])
def test_table_needs_scipy_but_not_jax(format):
    loaded = modules_after("table", str(ABLATION), "--format", format)
    assert "scipy.special" in loaded  # for intervals and p values
    assert not loaded & {"jax", "flax", "optax", "orbax", "nltk", "rich", "ml_collections", "scipy.stats"}


@pytest.mark.parametrize(
    ("tokenizer", "text", "tokens"),
    [
        ("NLTKWordTokenizer", 'He said: "I can\'t."', "He said : `` I ca n't . ''"),
        ("TweetTokenizer", "@you #yes :-) it's", "@you #yes :-) it's"),
    ],
)
def test_nltk_tokenizer_is_loaded_without_the_rest_of_nltk(tokenizer, text, tokens):
    code = f"""
import sys
from jaxmatch.data.text import nltk_tokenizer
print(*nltk_tokenizer({tokenizer!r}).tokenize({text!r}))
print("scipy" in sys.modules, [name for name in sys.modules if name.startswith("nltk")])
import nltk  # the full package can still be imported
print(*nltk.{tokenizer}().tokenize({text!r}))
from nltk.tag import PerceptronTagger
"""
    assert run_python("-c", code).stdout.splitlines() == [tokens, "False []", tokens]
