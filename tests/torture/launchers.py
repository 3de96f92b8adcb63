"""Several launchers on one folder, and signals sent to one of them."""

import random
import shutil
import signal
import time
from pathlib import Path

from torture.attacks import Attack
from torture.bench import Bench
from torture.processes import Command

SIGNALS = {"TERM": {-15, 143, 0}, "INT": {130, 0}, "HUP": {-1, 129, 0}, "KILL": {-9, 0}, "STOP": {0}}


def _together(bench: Bench, count: int, sent: str, begun: bool):
    def make(folder: Path, generator: random.Random) -> str:
        workdir = folder / "workdir"
        if begun:
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
        ends = [command.wait() for command in commands]
        for number, end in enumerate(ends):
            expected = SIGNALS[sent] if sent and not number else {0}
            if end.status not in expected:
                last = (end.errors.strip().splitlines() or ["no message"])[-1]
                return f"launcher {number} ended with status {end.status}: {last[:300]}"
            if "Traceback" in end.errors:
                return f"launcher {number} shows a traceback"
            if end.status == 0 and end.output != bench.table:
                return f"silently wrong: the table of launcher {number} is another"
        end = Command(words, folder).wait()
        return bench.differs(workdir, end)

    return make


def attacks(bench: Bench) -> list[Attack]:
    """One to three launchers, each with every signal, on a new folder or on one that was begun."""
    made = []
    for count in (1, 2, 3):
        for sent in ("", *SIGNALS):
            if count > 1 or sent:
                name = (
                    f"launchers/{count} on {'a begun' if count == 2 else 'a new'} "
                    f"folder{f', SIG{sent} to one' if sent else ''}"
                )
                made.append(Attack(name, _together(bench, count, sent, count == 2)))
    return made
