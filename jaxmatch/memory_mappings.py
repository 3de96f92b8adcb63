"""The memory mappings of this process: Linux grants a limited number, and each program compiled for a CPU takes hundreds."""

from pathlib import Path

_LIMIT, _TAKEN = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")


def scarce() -> bool:
    """Whether more than three quarters of those granted are taken; False where the system does not tell.

    Beyond the last one, compiling another program ends the process, with gigabytes of memory free ("LLVM ERROR: Unable to
    allocate section memory!"). By default 65,530 are granted; a training step of RE2 with two blocks takes about 1,200.
    """
    try:
        granted = int(_LIMIT.read_text())
        with _TAKEN.open("rb") as lines:
            taken = sum(1 for _ in lines)
    except (OSError, ValueError):
        return False
    return 4 * taken > 3 * granted
