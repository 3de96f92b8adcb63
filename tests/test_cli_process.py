"""The command as a process: its help, its locale, interrupts, and an output that is closed, full or limited."""

import os
import re
import subprocess
import sys
import tomllib
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
    "-W",
    "error",
    "-c",
    "import sys; from jaxmatch.cli.main import main; from jaxmatch.reporting import report, table\n"
    "report.report = lambda *_: 'page ' * 9999; table.folder_table = lambda *_: 'a line'\n"
    "sys.exit(main(sys.argv[1:]))",
)
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")


def run_python(*words, before=(), variables=(), **named):
    """Runs Python with the arguments `words` and returns the completed process. `named` goes to `subprocess.run`."""
    environment = {**os.environ, "PYTHONPATH": str(Path(jaxmatch.__file__).parent.parent), **dict(variables)}
    named = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120} | named
    return subprocess.run([*before, sys.executable, *map(str, words)], env=environment, **named)


def test_help_lists_every_subcommand_and_the_cli_does_not_import_jax():
    done = run_python(*COMMAND, "--help")
    assert done.returncode == 0
    assert all(re.search(rf"\n    {name}\s", done.stdout) for name in SUBCOMMANDS)
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["jaxmatch"]
    code = f"import sys; from {entry.partition(':')[0]} import command; print('jaxmatch.cli.main' in sys.modules)\n"
    code += "import jaxmatch.cli.main; print('jax' in sys.modules, 'nltk' in sys.modules)"
    assert run_python("-c", code).stdout == "False\nFalse False\n"


@pytest.mark.parametrize("locale", ["ascii", "latin-1"])
def test_output_is_utf_8_in_every_locale(locale):
    variables = {"PYTHONIOENCODING": locale, "PYTHONUTF8": "0"}
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


def test_an_exceeded_file_size_limit_is_reported_in_one_line(tmp_path):
    limited = ("sh", "-c", 'ulimit -f 8 && exec "$@"', "sh")
    done = run_python(*FAKE, "report", QUICKSTART, "--output", tmp_path / "page.html", before=limited)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"jaxmatch: {tmp_path}/page.html: File too large\n" and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("installed", "outcome"), [(True, "caught"), (False, "lost")])
def test_interrupt_in_a_garbage_collector_callback_is_raised_again(installed, outcome):
    code = """
import gc, os, signal, time
from jaxmatch.cli.main import raise_lost_interrupts

def interrupted(phase, info):
    gc.callbacks.remove(interrupted)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)

if INSTALLED:
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
    done = run_python("-c", code.replace("INSTALLED", str(installed)))
    assert done.stdout == f"{outcome}\n" and "ZeroDivisionError" in done.stderr
    assert ("KeyboardInterrupt" in done.stderr) != installed


@pytest.mark.parametrize(
    ("interrupted", "status", "printed"), [(True, 130, "said\n"), (False, 0, "said\ntaken down\n")]
)
def test_exit_handlers_are_skipped_only_after_an_interrupt(interrupted, status, printed):
    # After an interrupt, JAX may still compute in its threads, so Python must not shut down as usual.
    program = (
        "import atexit, jax; from jaxmatch.cli.main import exit_if_needed; atexit.register(print, 'taken down');"
        f"print('said'); exit_if_needed(130, interrupted={interrupted})"
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


def test_interrupts_that_are_ignored_stay_ignored(tmp_path):
    (tmp_path / "mine.py").write_text(KILL + "print('imported', flush=True)")
    ignoring = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
    done = run_python("-m", "jaxmatch", "--import", "mine", "table", ".", before=ignoring, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "imported\n") and "no sweep was run" in done.stderr
