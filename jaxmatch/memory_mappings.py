"""The memory mappings of this process: Linux limits their number, and a program compiled for a CPU takes hundreds."""

from pathlib import Path

import jax

LIMIT_FILE, MAPPINGS_FILE = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")


def scarce() -> bool:
    """Returns whether more than three quarters of the mappings are in use; False if the system does not report them.

    If no mapping is left, the compilation of another program ends the process, even with gigabytes of free memory
    ("LLVM ERROR: Unable to allocate section memory!"). By default, Linux allows 65,530 mappings. A training step of RE2
    with two blocks takes about 1,200.
    """
    try:
        limit = int(LIMIT_FILE.read_text())
        with MAPPINGS_FILE.open("rb") as lines:
            used = sum(1 for _ in lines)
    except (OSError, ValueError):
        return False
    return 4 * used > 3 * limit


def clear_programs_if_scarce() -> bool:
    """Drops all compiled programs of `jax.jit` if memory mappings are scarce. They are compiled again when needed.

    Returns:
      Whether the programs were dropped.
    """
    if not scarce():
        return False
    jax.clear_caches()
    return True
