"""A stage that trains a sweep with the command, as far as the time allows. The sweep's folder stores what was done."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from benchmarks import fresh_process
from benchmarks.device.budget import Budget, Stage, duration, say
from jaxmatch.errors import InputError
from jaxmatch.reporting.records import read_sweep_folder
from jaxmatch.reporting.table import folder_table

# A sweep is interrupted this many seconds before the time is over, and killed at the end. It can be resumed from its
# last checkpoint either way.
SECONDS_TO_STOP = 20.0
# A shorter time is enough only for the start and the compiler.
LEAST_SECONDS = 60.0
SECONDS_BETWEEN_POLLS = 0.5
FINISHED = "finished"


def train(
    stage: Stage,
    budget: Budget,
    words: Sequence[str],
    workdir: Path,
    least: float = LEAST_SECONDS,
) -> None:
    """Trains the missing runs of a sweep, and stores its table and scores as its runs end.

    Arguments:
      stage: the stage, which stores the results.
      budget: the time. The sweep is interrupted when nothing may begin any more.
      words: the words of the command after `jaxmatch sweep`, without the working folder.
      workdir: the working folder.
      least: the least seconds of training with which the sweep is begun.
    """
    known, sweep = stage.found(), Path(words[0]).stem
    known = known if stage.is_current(known) and known.get("sweep") == sweep else {}
    if known.get("status") == FINISHED or stage.failed:
        return
    left = budget.left_to_begin()
    if left < least + SECONDS_TO_STOP:
        say(f"{stage.name}: not begun, it needs {duration(least + SECONDS_TO_STOP)} and {duration(left)} are left")
        return
    say(f"{stage.name}: jaxmatch sweep {Path(words[0]).name}, up to {duration(left)}; its own estimate follows")
    before, began = known.get("seconds", 0.0), time.monotonic()

    def keep(status: str) -> None:
        found = {"status": status, "seconds": round(before + time.monotonic() - began, 1), **sweep_results(workdir)}
        stage.keep({**found, "sweep": sweep, **stage.measured_with})

    command = [sys.executable, "-m", "benchmarks.device.command", "sweep", *words, "--workdir", str(workdir)]
    status, last_line = run(command, budget, lambda: keep("training"), workdir)
    if status:
        stage.failed.add(stage.name)
    keep({0: FINISHED, None: "interrupted"}.get(status, f"failed: {last_line}"))
    found = stage.found()
    say(f"{stage.name}: {found['status']} after {duration(found['seconds'])}")
    scores = {name: {part: run[part] for part in ("dev", "test")} for name, run in found["runs"].items()}
    say(f"{stage.name}: {json.dumps(scores)}")  # for a log that may be all that comes back


def run(command: Sequence[str], budget: Budget, more: Callable[[], None], workdir: Path) -> tuple[int | None, str]:
    """Runs a launcher, interrupts it before the time is over, and calls `more` whenever another run of its sweep has
    ended.

    Returns:
      The exit status, or None if the launcher was interrupted, and the last line of its standard error.
    """
    process = subprocess.Popen(
        command,
        cwd=fresh_process.ROOT,
        env=fresh_process.with_this_checkout(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    listener = threading.Thread(target=_pass_on, args=(process.stderr, lines))
    listener.start()
    count = 0
    try:
        while process.poll() is None and budget.left_to_begin() > SECONDS_TO_STOP:
            time.sleep(SECONDS_BETWEEN_POLLS)
            now = sum(1 for _ in workdir.glob("runs/*/record.json"))
            if now != count:
                count = now
                more()
        interrupted = process.poll() is None
    finally:
        _stop(process, max(1.0, budget.left_to_begin()))
        listener.join()
        process.stderr.close()
    return None if interrupted else process.returncode, lines[-1] if lines else ""


def _stop(process: subprocess.Popen, seconds: float) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _pass_on(stream: TextIO, lines: list[str]) -> None:
    for line in stream:
        sys.stderr.write(line)
        sys.stderr.flush()
        lines.append(line.strip())


def sweep_results(workdir: Path) -> dict[str, Any]:
    """Returns what a sweep's folder holds so far: the table, and for each run that ended its scores, its times and the
    settings that distinguish it.
    """
    try:
        folder = read_sweep_folder(workdir)
    except InputError:
        return {"table": "", "runs": {}, "planned": 0}
    fields = ("seed", "variant", "overrides", "status", "dev", "test", "best_on_test", "times", "device", "commit")
    runs = {name: {field: record[field] for field in fields} for name, record in folder.records.items()}
    return {"table": folder_table(workdir) if runs else "", "runs": runs, "planned": len(folder.runs)}
