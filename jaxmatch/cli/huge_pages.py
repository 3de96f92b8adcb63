"""Huge pages: memory in pages of megabytes instead of kilobytes, for processes that compute on a CPU.

Each call of a training step gets new working memory, hundreds of megabytes to gigabytes. The system provides it page by
page, 4 KiB each. benchmarks/NOTES.md reports how much time larger pages save. Many Linux systems give larger pages only
to processes that request them ("madvise"). glibc requests them if an environment variable was set before the process
began (https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html). Nothing else about the
memory changes.
"""

import os
import platform
import sys
from pathlib import Path

TUNABLES, HUGE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
SYSTEM = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def restart_with_huge_pages() -> None:
    """Restarts this process with the variable set, if that helps. Must be called before anything else is done.

    The function does nothing if the system gives huge pages to all processes or to none, if there is no glibc, or if
    the variable already mentions them: `GLIBC_TUNABLES=glibc.malloc.hugetlb=0` keeps small pages.
    """
    tunables = os.environ.get(TUNABLES, "")
    if HUGE in tunables or not only_on_request() or platform.libc_ver()[0] != "glibc":
        return
    changed = {TUNABLES: ":".join(filter(None, [tunables, f"{HUGE}=1"]))}
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **changed})
    except OSError:  # the process continues, although it is slower
        return


def enabled() -> bool:
    """Returns whether this process has huge pages, as do the processes that it starts with the same environment."""
    requested = f"{HUGE}=1" in os.environ.get(TUNABLES, "")
    return "[always]" in _system() or (requested and only_on_request())


def only_on_request() -> bool:
    """Returns whether the system gives huge pages only to processes that request them."""
    return "[madvise]" in _system()


def _system() -> str:
    """Reads the system's setting for huge pages. Returns "" if the system has no such setting."""
    try:
        return SYSTEM.read_text()
    except OSError:
        return ""
