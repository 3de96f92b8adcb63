"""The command as a process: its help, its locale, and an output that is closed, full or limited."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import small_sweep

import jaxmatch
from jaxmatch.cli.main import SUBCOMMANDS

QUICKSTART = Path(__file__).parent.parent / "results" / "quickstart"
COMMAND = ("-W", "error", "-m", "jaxmatch")
# The command with a page that takes no time to draw.
WITH_A_PLAIN_PAGE = (
    "-W",
    "error",
    "-c",
    "import sys; from jaxmatch.cli.main import main; from jaxmatch.reporting import report;"
    "report.report = lambda *_: 'page ' * 9999; sys.exit(main(sys.argv[1:]))",
)


def run_python(*words, before=(), variables=(), **named):
    """Runs Python with the arguments `words` and returns the completed process. `named` goes to `subprocess.run`."""
    environment = {**os.environ, "PYTHONPATH": str(Path(jaxmatch.__file__).parent.parent), **dict(variables)}
    named = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | named
    return subprocess.run([*before, sys.executable, *map(str, words)], env=environment, **named)


def test_help_lists_every_subcommand_and_the_cli_does_not_import_jax():
    done = run_python(*COMMAND, "--help")
    assert done.returncode == 0
    assert all(re.search(rf"\n    {name}\s", done.stdout) for name in SUBCOMMANDS)
    done = run_python("-c", "import sys, jaxmatch.cli.main; print('jax' in sys.modules, 'nltk' in sys.modules)")
    assert (done.returncode, done.stdout) == (0, "False False\n")


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
        code = (
            "import sys; from jaxmatch.cli.main import main; from jaxmatch.reporting import table;"
            "table.folder_table = lambda *_: 'a line'; sys.exit(main(['table', '.']))"
        )
        done = run_python("-c", code, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_standard_error_loses_only_the_messages(small_files, tmp_path):
    words = [sys.executable, *COMMAND, *small_sweep.command(small_files, tmp_path / "runs", "--dry-run")]
    closed = "import os, sys; os.close(2); os.execv(sys.argv[1], sys.argv[1:])"
    done = run_python("-c", closed, *words)
    assert (done.returncode, done.stdout) == (0, "")
    code = "import sys; sys.stderr = None; from jaxmatch.cli.common import note; note('a note')"
    assert run_python("-c", code).stdout == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize(
    "words",
    [
        [*COMMAND, "table", QUICKSTART],
        [*WITH_A_PLAIN_PAGE, "report", QUICKSTART, "--output", "-"],
        [*COMMAND, "--help"],
        [*COMMAND, "--version"],
    ],
    ids=lambda words: words[-1],
)
def test_a_full_output_device_is_reported_in_one_line(words):
    with open("/dev/full", "wb") as full:
        done = run_python(*words, stdout=full)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("jaxmatch: standard output: ") and "make room" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
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
    words = "report", QUICKSTART, "--output", tmp_path / "page.html"
    done = run_python(*WITH_A_PLAIN_PAGE, *words, before=limited)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"jaxmatch: {tmp_path}/page.html: ")
    assert "raise the limit of a file's size" in done.stderr
    assert done.stderr.count("\n") == 1 and not list(tmp_path.iterdir())
