"""Interrupts that arrive where nobody can catch them."""

import subprocess
import sys

import pytest

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


def said(install: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("INSTALL", install)], capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip(), done.stderr


def test_an_interrupt_in_a_callback_of_the_garbage_collector_is_raised_once_more():
    assert said("raise_lost_interrupts()") == ("caught", "")
    found, errors = said("")  # what Python does by itself
    assert found == "lost" and "Traceback" in errors


def test_other_exceptions_are_reported_as_before():
    found, errors = said("raise_lost_interrupts(); gc.callbacks.append(lambda *_: 1 / 0)")
    assert found == "caught" and "ZeroDivisionError" in errors


@pytest.mark.parametrize(
    ("interrupted", "status", "printed"), [(True, 130, "said\n"), (False, 0, "said\ntaken down\n")]
)
def test_an_interrupted_process_is_not_taken_down_by_python_while_jax_may_compute(interrupted, status, printed):
    program = (
        "import atexit, jax; from jaxmatch.cli.distributed import leave; atexit.register(print, 'taken down');"
        f"print('said'); leave(130, interrupted={interrupted})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (status, printed)
