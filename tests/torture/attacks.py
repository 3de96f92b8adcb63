"""Attacks, and a function that runs them two at a time, each in its own process and folder."""

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

AT_ONCE = 2
LIMIT_S = 300


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
      name: the name, which with the seed determines all random choices of the attack.
      make: a function of an empty folder and a random generator. It makes the attack, and returns "" if it passed, or
        else what went wrong. A file `count` beside the folder holds how many attacks it was, such as the kills of one
        sweep, or 0 if the attack was not made (`not_made`); without the file it was one.
      weight: the expected `count`, for the estimate of time.
    """

    name: str
    make: Callable[[Path, random.Random], str]
    weight: int = 1


def not_made(folder: Path) -> str:
    """Returns the result of an attack that this system or user cannot make, and makes it count as no attack."""
    (folder.parent / "count").write_text("0")
    return ""


def run_attacks(attacks: Iterable[Attack], folder: Path, seed: int) -> Iterator[tuple[Attack, int, str]]:
    """Runs attacks, and yields (attack, `count`, what went wrong or "") as each of them ends."""
    waiting = iter(enumerate(attacks))
    running: dict[int, tuple[Attack, Path, float]] = {}
    try:
        while True:
            while len(running) < AT_ONCE and (following := next(waiting, None)):
                number, attack = following
                place = folder / str(number)
                place.mkdir()
                running[_start(attack, place, seed)] = (attack, place, time.monotonic())
            if not running:
                return
            for pid, (attack, place, began) in list(running.items()):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    verdict = place / "verdict"
                    count = int((place / "count").read_text()) if (place / "count").exists() else 1
                    yield attack, count, verdict.read_text() if verdict.exists() else "the attack itself died"
                elif time.monotonic() - began > LIMIT_S:
                    _kill(pid)
                    yield attack, 1, f"it hangs: no end in {LIMIT_S} s"
                else:
                    continue
                del running[pid]
                _remove(place)
            time.sleep(0.005)
    finally:
        for pid, (_, place, _) in running.items():
            _kill(pid)
            _remove(place)


def _start(attack: Attack, place: Path, seed: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        (place / "work").mkdir()
        os.chmod(place, 0o755)
        os.chmod(place / "work", 0o777)
        os.chdir(place / "work")  # what a command leaves in the current folder goes with the attack
        problem = attack.make(place / "work", random.Random(f"{seed} {attack.name}"))
    except BaseException:
        problem = f"the attack itself failed: {traceback.format_exc().strip()[-600:]}"
    (place / "verdict").write_text(" ".join(problem.split()).replace(str(place / "work"), "FOLDER"))
    os._exit(0)


def _kill(pid: int) -> None:
    """Ends an attack with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _remove(place: Path) -> None:
    for path in [place, *place.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            os.chmod(path, 0o755)
    shutil.rmtree(place, ignore_errors=True)
