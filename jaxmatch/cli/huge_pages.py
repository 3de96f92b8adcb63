"""Memory in pages of megabytes instead of kilobytes, for processes that compute on a CPU.

A training step needs its working memory anew in each call, hundreds of megabytes to gigabytes, and the system hands
them out page by page, 4 KiB each; benchmarks/NOTES.md has what larger ones save. Many Linux systems give
larger pages only to whoever asks ("madvise"), and glibc asks if a variable said so before the process began
(https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html). Nothing else about the memory
changes.
"""

import os
import platform
import sys
from pathlib import Path

TUNABLES, HUGE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
SYSTEM = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def start_again_with_huge_pages() -> None:
    """Replaces this process by itself with the variable set, if that helps; to be called first of all.

    Does nothing where the system gives huge pages to all or to nobody, without glibc, and where the variable already
    says something of them: `GLIBC_TUNABLES=glibc.malloc.hugetlb=0` keeps small pages.
    """
    said = os.environ.get(TUNABLES, "")
    if HUGE in said or not given_on_request_only() or platform.libc_ver()[0] != "glibc":
        return
    changed = {TUNABLES: ":".join(filter(None, [said, f"{HUGE}=1"]))}
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **changed})
    except OSError:  # slower, but no reason not to go on
        return


def given() -> bool:
    """Whether this process, and those that it starts with its variables, have huge pages."""
    asked = f"{HUGE}=1" in os.environ.get(TUNABLES, "")
    return "[always]" in _system() or (asked and given_on_request_only())


def given_on_request_only() -> bool:
    """Whether the system gives huge pages only to those who ask for them."""
    return "[madvise]" in _system()


def _system() -> str:
    """What the system says of huge pages; "" where it says nothing."""
    try:
        return SYSTEM.read_text()
    except OSError:
        return ""
