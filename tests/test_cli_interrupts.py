"""Interrupts that arrive early, during an import, or where no code can catch them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jaxmatch

ROOT = Path(__file__).parent.parent
PROGRAM = """
import gc, os, signal, time
from jaxmatch.cli.interrupts import raise_lost_interrupts

INSTALL

def interrupted(phase, info):
    gc.callbacks.remove(interrupted)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)

gc.callbacks.append(interrupted)
try:
    gc.collect()
    time.sleep(1)
    print("lost")
except KeyboardInterrupt:
    print("caught")
"""


def outputs_of(install: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("INSTALL", install)], capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip(), done.stderr


def test_interrupt_in_a_garbage_collector_callback_is_raised_again():
    assert outputs_of("raise_lost_interrupts()") == ("caught", "")
    found, errors = outputs_of("")  # plain Python
    assert found == "lost" and "Traceback" in errors


def test_other_exceptions_in_garbage_collector_callbacks_are_still_reported():
    found, errors = outputs_of("raise_lost_interrupts(); gc.callbacks.append(lambda *_: 1 / 0)")
    assert found == "caught" and "ZeroDivisionError" in errors


@pytest.mark.parametrize(
    ("interrupted", "status", "printed"), [(True, 130, "said\n"), (False, 0, "said\ntaken down\n")]
)
def test_exit_handlers_are_skipped_only_after_an_interrupt(interrupted, status, printed):
    # After an interrupt, JAX may still compute in its threads, so Python must not shut down as usual.
    program = (
        "import atexit, jax; from jaxmatch.cli.main import exit_if_needed; atexit.register(print, 'taken down');"
        f"print('said'); exit_if_needed(130, interrupted={interrupted})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (status, printed)


# The path is needed if the package is not installed.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(jaxmatch.__file__).parent.parent)}
KILL = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.5)\n"


def command(folder, *words, through=()):
    """Runs `python -m jaxmatch` in a folder that is first on the import path, through another program if given."""
    started = [*through, sys.executable, "-m", "jaxmatch", *words]
    done = subprocess.run(started, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_interrupt_while_the_command_is_imported_prints_one_line(tmp_path):
    (tmp_path / "shlex.py").write_text(KILL + "raise SystemExit('it goes on')")
    assert command(tmp_path, "table", ".") == (130, "", "jaxmatch: interrupted\n")


def test_interrupt_during_an_import_is_raised_after_the_import(tmp_path):
    (tmp_path / "mine.py").write_text(KILL + "print('imported', flush=True)")
    (tmp_path / "after.py").write_text("import time\ntime.sleep(60)\n")
    words = ("--import", "mine", "--import", "after.py", "table", ".")
    assert command(tmp_path, *words) == (130, "imported\n", "jaxmatch: interrupted\n")


def test_long_import_is_interrupted(tmp_path):
    (tmp_path / "mine.py").write_text(KILL + "print('imported')")
    program = (
        "from jaxmatch.cli import interrupts; interrupts.MAX_DELAY_SECONDS = 0.1; interrupts.defer_in_imports()\n"
        "try: import mine\nexcept KeyboardInterrupt: print('caught')"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("caught\n", "")


def test_interrupts_that_are_ignored_stay_ignored(tmp_path):
    (tmp_path / "mine.py").write_text(KILL + "print('imported', flush=True)")
    ignoring = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
    status, out, err = command(tmp_path, "--import", "mine", "table", ".", through=ignoring)
    assert (status, out) == (2, "imported\n") and "no sweep was run" in err


def test_blocked_interrupt_before_exec_is_not_lost():
    program = (
        "import os, signal, sys; from jaxmatch.cli import interrupts\n"
        "if len(sys.argv) > 1: interrupts.exit_on_interrupt(); sys.exit('lost')\n"
        "with interrupts.blocked():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.execv(sys.executable, [sys.executable, '-c', PROGRAM, 'again'])"
    )
    program = f"PROGRAM = {program!r}\n{program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "jaxmatch: interrupted\n")


def test_installed_entry_point_does_not_import_cli_main():
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["jaxmatch"]
    program = f"import sys; from {entry.partition(':')[0]} import command; print('jaxmatch.cli.main' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_signal_mask_of_the_caller_is_restored():
    program = (
        "import signal; from jaxmatch.cli import interrupts\n"
        "def blocked(): return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
        "if BEFORE: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "interrupts.exit_on_interrupt(); print(blocked())\n"
        "with interrupts.blocked(): print(blocked())\n"
        "print(blocked())"
    )
    for before in (False, True):
        words = [sys.executable, "-c", program.replace("BEFORE", str(before))]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.stdout.split() == [str(before), "True", str(before)], done.stderr
