"""The memory mappings of this process: Linux limits their number, and a program compiled for a CPU takes hundreds."""

from pathlib import Path

import jax

LIMIT_FILE, MAPPINGS_FILE = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")


def scarce() -> bool:
    """Whether more than three quarters of the mappings are taken; False where the system does not say.

    When none is left, compiling another program ends the process, with gigabytes of memory free ("LLVM ERROR: Unable to
    allocate section memory!"). By default Linux grants 65,530; a training step of RE2 with two blocks takes about
    1,200.
    """
    try:
        granted = int(LIMIT_FILE.read_text())
        with MAPPINGS_FILE.open("rb") as lines:
            taken = sum(1 for _ in lines)
    except (OSError, ValueError):
        return False
    return 4 * taken > 3 * granted


def clear_programs_if_scarce() -> bool:
    """Drops what `jax.jit` has compiled if memory mappings are scarce; it is compiled again when it is called.

    Returns:
      whether they were dropped.
    """
    if not scarce():
        return False
    jax.clear_caches()
    return True
