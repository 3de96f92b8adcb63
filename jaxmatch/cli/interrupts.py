"""Interrupts: whenever one arrives, it ends the command with one line.

Python raises KeyboardInterrupt wherever the main thread is, also where no code can catch it. Three cases are handled
here. Before the command has begun, an interrupt ends the process at once. During an import it is postponed, because
libraries in C++ crash if it is raised while they are imported. In a callback of the garbage collector (JAX has one) or
in a finalizer no code can catch it: Python prints a traceback and continues. The interrupt is then raised again.
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

INTERRUPTED = 130  # the status that a shell reports for a program that an interrupt ended
RETRY_SECONDS = 0.01
# The environment variable that tells a program that replaces this process that interrupts were blocked for it.
_WAITING = "JAXMATCH_INTERRUPTS_WAIT"
# The most seconds that an interrupt is postponed. A module of the user may compute for hours while it is imported.
MAX_DELAY_SECONDS = 10.0


def exit_on_interrupt() -> None:
    """Makes an interrupt end this process with one line, until `defer_in_imports` is called.

    That is safe because nothing has been written yet. An interrupt that arrived while interrupts were `blocked` ends
    the process, too.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else the caller ignores or handles them
        signal.signal(signal.SIGINT, _end)
    _unblock()


@contextlib.contextmanager
def blocked() -> Iterator[None]:
    """Blocks interrupts until the end of the block. Interrupts that were blocked before stay blocked.

    If another program replaces this process in the block, interrupts wait until that program calls `exit_on_interrupt`.
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


def defer_in_imports() -> None:
    """Makes an interrupt raise KeyboardInterrupt in the main thread, as Python does, but not during an import.

    An interrupt that arrives during an import is raised after it, or after `MAX_DELAY_SECONDS` seconds.
    """
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, _end):
        return
    first_arrival, retry_scheduled = 0.0, False

    def retry() -> None:
        nonlocal retry_scheduled
        time.sleep(RETRY_SECONDS)
        retry_scheduled = False
        _interrupt()

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first_arrival, retry_scheduled
        if retry_scheduled:
            return
        first_arrival = first_arrival or time.monotonic()
        if _importing(frame) and time.monotonic() - first_arrival < MAX_DELAY_SECONDS:
            retry_scheduled = True
            _thread.start_new_thread(retry, ())
        else:
            first_arrival = 0.0
            signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)


def _importing(frame: FrameType | None) -> bool:
    """Returns whether an import is in progress in a frame or its callers."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def raise_lost_interrupts() -> None:
    """Makes Python raise an interrupt again, in the main thread, if it would only report it as ignored."""
    report = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            _thread.start_new_thread(_interrupt, (RETRY_SECONDS,))
        else:
            report(unraisable)

    sys.unraisablehook = hook


def _interrupt(seconds: float = 0.0) -> None:
    """Interrupts the main thread, even while it waits for input.

    Arguments:
      seconds: the time to wait first, for a callback to end in which the interrupt would be lost again.
    """
    time.sleep(seconds)
    try:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    except AttributeError:  # Windows
        _thread.interrupt_main()
