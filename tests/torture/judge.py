"""What counts as a failure. Each function gives the empty string, or says what is wrong."""

from collections.abc import Iterable
from pathlib import Path

from torture.processes import MOST_MEMORY_MIB, Ended

REFUSED, PIECES = 2, 300


def _crash(ended: Ended) -> str:
    """What no command may do, whatever it is given."""
    if ended.status is None:
        return f"it hangs: ended after {ended.seconds:.0f} s"
    if "Traceback (most recent call last)" in ended.errors:
        return "a traceback: " + ended.errors.strip().splitlines()[-1][:PIECES]
    if ended.status < 0:
        return f"it died of signal {-ended.status}"
    if ended.memory_mib > MOST_MEMORY_MIB:
        return f"it took {ended.memory_mib:.0f} MiB of memory"
    return ""


def refused(ended: Ended, names: Iterable[str] = (), *, only_line: bool = True) -> str:
    """Judges a command that must refuse: status 2, and one line that names the file.

    Arguments:
      ended: the command.
      names: texts of which the line must hold one; empty: any line will do.
      only_line: whether it may have said nothing else, as progress.
    """
    if problem := _crash(ended):
        return problem
    lines = [line for line in ended.errors.splitlines() if line.strip()]
    if ended.status == 0:
        return "silent success: it is accepted"
    if ended.status != REFUSED:
        return f"status {ended.status} instead of {REFUSED}: {lines[-1][:PIECES] if lines else 'nothing said'}"
    if not lines or not lines[-1].startswith("jaxmatch: "):
        return f"the last line is not ours: {lines[-1][:PIECES] if lines else 'nothing said'}"
    if only_line and len(lines) > 1:
        return f"{len(lines)} lines instead of one: {lines[0][:PIECES]}"
    names = list(names)
    if names and not any(name in lines[-1] for name in names):
        return f"the file is not named ({' or '.join(names)}): {lines[-1][:PIECES]}"
    return ""


def refused_or_right(ended: Ended, names: Iterable[str], right: bool, *, only_line: bool = True) -> str:
    """Judges a command that may refuse or give the undamaged answer.

    Arguments:
      right: whether what it left is that of undamaged files.
    """
    if ended.status == 0 and "Traceback" not in ended.errors:
        return "" if right else "silently wrong: it is accepted, and the answer is another"
    return refused(ended, names, only_line=only_line)


def refused_or_sound(ended: Ended, names: Iterable[str] = ()) -> str:
    """Judges a command whose changed input may be as good as the old one."""
    return _crash(ended) or ("" if ended.status == 0 else refused(ended, names))


def listing(*folders: Path) -> list[str]:
    """All files and folders below some folders."""
    return sorted(str(path.relative_to(folder)) for folder in folders if folder.exists() for path in folder.rglob("*"))


def remains(folder: Path) -> str:
    """Says what half-written things lie below a folder."""
    found = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if "partial" in path.name or "orbax-checkpoint-tmp" in path.name
    ]
    return f"left behind: {', '.join(found)[:PIECES]}" if found else ""
