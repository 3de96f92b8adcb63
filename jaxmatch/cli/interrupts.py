"""An interrupt ends a command in one line, whenever it comes.

Python raises KeyboardInterrupt wherever the main thread is, also where nobody can take it. Before the command has
begun, the process ends at once. Libraries in C++ crash if it is raised while they are imported; there it waits. In a
callback of the garbage collector, of which JAX has one, or in a finaliser nobody can catch it: Python prints a
traceback and goes on. Then it is raised once more.
"""

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130  # what a shell reports for a program that an interrupt ended
SECONDS_BEFORE_THE_NEXT = 0.01
# Tells the program that this process becomes that interrupts were blocked for it.
_WAITING = "JAXMATCH_INTERRUPTS_WAIT"
# A module of the user may compute for hours while it is imported.
LONGEST_IMPORT = 10.0


def end_at_once() -> None:
    """Has an interrupt end this process with a line, until `hold_back_in_imports`: nothing has been written yet. What
    came while they were `blocked` counts.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody has them ignored
        signal.signal(signal.SIGINT, _end)
    _unblock()


@contextlib.contextmanager
def blocked() -> Iterator[None]:
    """Has interrupts wait, also while this process becomes another program, until that calls `end_at_once`. Where they
    were blocked before, they stay so.
    """
    with contextlib.suppress(AttributeError):  # Windows
        if signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}):
            os.environ[_WAITING] = "1"
    try:
        yield
    finally:
        _unblock()


def _unblock() -> None:
    if os.environ.pop(_WAITING, None):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"jaxmatch: interrupted\n")
    os._exit(INTERRUPTED)


def hold_back_in_imports() -> None:
    """Has an interrupt raised in the main thread, as Python does, but not before what it imports is imported."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, _end):
        return
    first, waits = 0.0, False

    def again() -> None:
        nonlocal waits
        time.sleep(SECONDS_BEFORE_THE_NEXT)
        waits = False
        _interrupt()

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first, waits
        if waits:
            return
        first = first or time.monotonic()
        if _importing(frame) and time.monotonic() - first < LONGEST_IMPORT:
            waits = True
            _thread.start_new_thread(again, ())
        else:
            first = 0.0
            signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)


def _importing(frame: FrameType | None) -> bool:
    """Whether an import statement is being carried out."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def raise_lost_interrupts() -> None:
    """Has interrupts that Python would report as ignored raised again, in the main thread."""
    report = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            _thread.start_new_thread(_interrupt, (SECONDS_BEFORE_THE_NEXT,))
        else:
            report(unraisable)

    sys.unraisablehook = hook


def _interrupt(seconds: float = 0.0) -> None:
    """Interrupts the main thread, also where it waits for input.

    Arguments:
      seconds: until then, in which a callback ends, inside which the interrupt would be lost again.
    """
    time.sleep(seconds)
    try:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    except AttributeError:  # Windows
        _thread.interrupt_main()
