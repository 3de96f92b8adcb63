"""Sweeps killed again and again until they are done; several launchers on one folder, of which one gets a signal."""

import random
import shutil
import signal
import time
from pathlib import Path

from killed_launches import kill_self_at

from torture.bench import Bench
from torture.processes import Attack, Command, run_command

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
SIGNALS = {"TERM": {-15, 143, 0}, "INT": {130, 0}, "HUP": {-1, 129, 0}, "KILL": {-9, 0}, "STOP": {0}}


def _killed(bench: Bench, part: str | None):
    def make(folder: Path, generator: random.Random) -> str:
        workdir, cache = folder / "workdir", folder / "cache"
        words, killed = bench.sweep(workdir, cache), 0
        while killed < KILLS:
            if part is None:
                command = Command(words, folder)
                # Most of what is before a launcher holds a cohort is the start of Python.
                while not command.has_exited() and not list(workdir.glob("cohorts/*.lock")):
                    time.sleep(0.01)
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
        problem = bench.differs(workdir, run_command(words, folder), cache)
        return problem and f"after {killed} kills: {problem}"

    return make


def attacks(bench: Bench) -> list[Attack]:
    """At least 100 kills: at random moments, and just before a chosen kind of file is written, renamed or removed."""
    aims = [*[None, *AIMS] * 2, None, "", "/checkpoints", "/cache"]
    names = [part if part is None else part.strip("/") or "any change" for part in aims]
    return [
        Attack(f"kills/{name or 'at random'}/{number}", _killed(bench, part))
        for number, (name, part) in enumerate(zip(names, aims))
    ]


def _together(bench: Bench, count: int, sent: str):
    def make(folder: Path, generator: random.Random) -> str:
        workdir = folder / "workdir"
        if count == 2:
            shutil.copytree(bench.half, workdir)
        words = bench.sweep(workdir)
        commands = [Command(words, folder) for _ in range(count)]
        if sent:
            time.sleep(generator.uniform(0.1, 3))
            commands[0].kill(getattr(signal, f"SIG{sent}"))
            if sent == "STOP":
                # Others may wait for what it holds; it goes on before they are given up.
                time.sleep(generator.uniform(1, 3))
                commands[0].kill(signal.SIGCONT)
        for number, command in enumerate(commands):
            end = command.wait()
            if end.status not in (SIGNALS[sent] if sent and not number else {0}) or "Traceback" in end.errors:
                return f"launcher {number} ended with status {end.status}: {end.errors.strip()[-300:]}"
            if end.status == 0 and end.output != bench.table:
                return f"silently wrong: the table of launcher {number} is another"
        return bench.differs(workdir, run_command(words, folder))

    return make


def launcher_attacks(bench: Bench) -> list[Attack]:
    """One to three launchers, each with every signal; two on a folder that was begun, the others on a new one."""
    return [
        Attack(f"launchers/{count} on one folder{f', SIG{sent} to one' if sent else ''}", _together(bench, count, sent))
        for count in (1, 2, 3)
        for sent in ("", *SIGNALS)
        if count > 1 or sent
    ]
