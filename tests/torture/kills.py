"""Sweeps killed again and again, started again until they are done, and compared with one that nothing stopped."""

import random
import signal
import time
from pathlib import Path

from killed_launches import kill_self_at

from torture.attacks import Attack
from torture.bench import Bench
from torture.processes import Command, run_command

# Kills of one sweep, at most.
KILLS = 8
# Part of a path -> up to how many changes of such paths a launch makes before it is killed.
AIMS = {
    "": 200,
    "/checkpoints": 90,
    "record.json": 2,
    "DONE": 2,
    "cohort.json": 2,
    "sweep.json": 2,
    "/model": 12,
    "/cache": 30,
    "/vectors": 2,
}


def _sweep(bench: Bench, part: str | None):
    def make(folder: Path, generator: random.Random) -> str:
        workdir, cache = folder / "workdir", folder / "cache"
        words, killed = bench.sweep(workdir, cache), 0
        while killed < KILLS:
            if part is None:
                command = Command(words, folder)
                _wait_for_training(command, workdir)
                time.sleep(generator.uniform(0, 4))
                command.kill(signal.SIGKILL)
            else:
                event = generator.randrange(1, AIMS[part] + 1)
                command = Command(words, folder, lambda event=event: kill_self_at(event, (workdir, cache), part))
            end = command.wait()
            if end.status == 0:
                if problem := bench.differs(workdir, end, cache):
                    return f"after {killed} kills: {problem}"
                break  # all is on record; nothing is left to kill
            if end.status != -signal.SIGKILL:
                return f"after {killed} kills: status {end.status}: {end.errors.strip()[-300:]}"
            killed += 1
            (folder.parent / "count").write_text(str(killed))
        end = run_command(words, folder)
        problem = bench.differs(workdir, end, cache)
        return problem and f"after {killed} kills: {problem}"

    return make


def _wait_for_training(command: Command, workdir: Path) -> None:
    """Waits until a launcher holds a cohort: most of what is before is the start of Python."""
    while not command.has_exited() and not list(workdir.glob("cohorts/*.lock")):
        time.sleep(0.01)


def attacks(bench: Bench) -> list[Attack]:
    """At least 100 kills: at random moments, and just before a chosen kind of file is written, renamed or removed."""
    aims = [*[None, *AIMS] * 2, None, "", "/checkpoints", "/cache"]
    return [
        Attack(
            f"kills/{'at random' if part is None else part.strip('/') or 'any change'}/{number}",
            _sweep(bench, part),
            KILLS,
        )
        for number, part in enumerate(aims)
    ]
