"""An interrupt is never lost.

Python raises KeyboardInterrupt wherever the main thread is. In a callback of the garbage collector, of which JAX has
one, or in a finaliser nobody can catch it: Python prints a traceback and goes on. Then it is raised once more.
"""

import _thread
import sys
import time

SECONDS_BEFORE_THE_NEXT = 0.01


def raise_lost_interrupts() -> None:
    """Has interrupts that Python would report as ignored raised again, in the main thread."""
    report = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            _thread.start_new_thread(_interrupt, ())
        else:
            report(unraisable)

    sys.unraisablehook = hook


def _interrupt() -> None:
    """Interrupts the main thread after a callback has ended, inside which the interrupt would be lost again."""
    time.sleep(SECONDS_BEFORE_THE_NEXT)
    _thread.interrupt_main()
