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
# What the variable was before it was changed here, for programs that are to be started as they would be without us.
BEFORE = "JAXMATCH_TUNABLES_BEFORE"
SYSTEM = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def start_again_with_huge_pages() -> None:
    """Replaces this process by itself with the variable set, if that helps; to be called first of all.

    Does nothing where the system gives huge pages to all or to nobody, without glibc, and where the variable already
    says something of them: `GLIBC_TUNABLES=glibc.malloc.hugetlb=0` keeps small pages.
    """
    said = os.environ.get(TUNABLES, "")
    if HUGE in said or not given_on_request_only() or platform.libc_ver()[0] != "glibc":
        return
    changed = {TUNABLES: ":".join(filter(None, [said, f"{HUGE}=1"])), BEFORE: said}
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **changed})
    except OSError:  # slower, but no reason not to go on
        return


def environment_before() -> dict[str, str]:
    """The variables as they were before `start_again_with_huge_pages`."""
    environment = dict(os.environ)
    said = environment.pop(BEFORE, None)
    if said is not None:
        environment.pop(TUNABLES, None)
    return environment | ({TUNABLES: said} if said else {})


def given_on_request_only() -> bool:
    """Whether the system gives huge pages only to those who ask for them."""
    try:
        return "[madvise]" in SYSTEM.read_text()
    except OSError:
        return False
