"""What counts as a failure. Each function gives the empty string, or says what is wrong."""

from collections.abc import Iterable
from pathlib import Path

from torture.processes import MOST_MEMORY_MIB, CommandResult

REFUSED, PIECES = 2, 300


def _crash(result: CommandResult) -> str:
    """Returns which failure a command shows that no input may cause (hang, traceback, signal, memory), or ""."""
    if result.status is None:
        return f"it hangs: killed after {result.seconds:.0f} s"
    if "Traceback (most recent call last)" in result.errors:
        return "a traceback: " + result.errors.strip().splitlines()[-1][:PIECES]
    if result.status < 0:
        return f"it died of signal {-result.status}"
    return f"it took {result.memory_mib:.0f} MiB of memory" if result.memory_mib > MOST_MEMORY_MIB else ""


def refused(result: CommandResult, names: Iterable[str] = (), *, only_line: bool = True) -> str:
    """Judges a command that must refuse: status 2, and one line that names the file.

    Arguments:
      result: the result of the command.
      names: texts, one of which must be in the line; empty: any line is accepted.
      only_line: whether standard error must have no other lines, such as progress.
    """
    if problem := _crash(result):
        return problem
    lines, names = [line for line in result.errors.splitlines() if line.strip()] or ["no message"], list(names)
    if result.status == 0:
        return "silent success: it is accepted"
    if result.status != REFUSED:
        return f"status {result.status} instead of {REFUSED}: {lines[-1][:PIECES]}"
    if not lines[-1].startswith("jaxmatch: "):
        return f"the last line is not ours: {lines[-1][:PIECES]}"
    if only_line and len(lines) > 1:
        return f"{len(lines)} lines instead of one: {lines[0][:PIECES]}"
    if names and not any(name in lines[-1] for name in names):
        return f"the file is not named ({' or '.join(names)}): {lines[-1][:PIECES]}"
    return ""


def refused_or_right(result: CommandResult, names: Iterable[str], right: bool) -> str:
    """Judges a command that may refuse or give the undamaged answer; `right`: whether it gave that."""
    if result.status == 0 and "Traceback" not in result.errors:
        return "" if right else "silently wrong: it is accepted, and the answer is another"
    return refused(result, names)


def refused_or_sound(result: CommandResult, names: Iterable[str] = ()) -> str:
    """Judges a command whose changed input may be as good as the old one."""
    return _crash(result) or ("" if result.status == 0 else refused(result, names))


def listing(folder: Path) -> list[str]:
    """All files and folders below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def leftover_files(folder: Path) -> str:
    """Returns a message with the partial files below a folder, or ""."""
    found = [each for each in listing(folder) if "partial" in each]
    return f"left behind: {', '.join(found)[:PIECES]}" if found else ""
