"""A model that answers very much, many at once, and in other processes."""

import concurrent.futures
import json
import multiprocessing
import os
import pickle
import random
import time
from pathlib import Path

from torture.attacks import Attack
from torture.bench import Bench
from torture.processes import Command, run_command

PAIRS = 1_000_000
# MiB that memory may grow by between a fifth and the end of all pairs.
GROWTH = 64


def _million(bench: Bench, pairs: int = PAIRS):
    def make(folder: Path, generator: random.Random) -> str:
        words = ("ba", "bo", "bu", "da", "do", "du", "ka", "ko", "ku", "ma", "mo", "mu", "new")
        block = "".join(
            f"{' '.join(generator.choices(words, k=3))}\t{' '.join(generator.choices(words, k=2))}\n"
            for _ in range(10_000)
        )
        with open(folder / "pairs.tsv", "w") as file:
            file.write("text_a\ttext_b\n")
            for _ in range(pairs // 10_000):
                file.write(block)
        answers = folder / "answers.jsonl"
        command = Command(
            ["predict", str(bench.run), "--input", str(folder / "pairs.tsv"), "--output", str(answers)], folder
        )
        samples = []  # (bytes written, MiB of memory)
        while not command.has_exited():
            written = sum(path.stat().st_size for path in folder.glob("*answers*") if path.exists())
            samples.append((written, _resident(command.pid)))
            time.sleep(0.2)
        end = command.wait()
        if end.status != 0:
            return f"status {end.status}: {end.errors.strip()[-300:]}"
        with open(answers) as file:
            count = sum(1 for line in file if json.loads(line)["label"])
        if count != pairs:
            return f"{count} answers instead of {pairs}"
        fifth = answers.stat().st_size / 5
        early = max((memory for written, memory in samples if written <= fifth), default=0)
        late = max(memory for _, memory in samples)
        return f"memory grew from {early:.0f} to {late:.0f} MiB" if early and late > early + GROWTH else ""

    return make


def _resident(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, IndexError):
        return 0.0


TEXTS = [("ba bo bu", "ba da"), ("ka ma", "mo mu ku"), ("ba", "unseen")]


def _threads(run: Path):
    """One model first used from 8 threads at once."""
    from jaxmatch.inference.matcher import load

    matcher = load(run)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: matcher.predict(TEXTS), range(32)))
    assert all(answer == answers[0] for answer in answers), "threads get different answers"
    assert answers[0] == load(run).predict(TEXTS), "answers differ from those of one thread"


def _pickled(run: Path):
    """A pickled model answers the same, or pickling is refused."""
    from jaxmatch.inference.matcher import load

    matcher = load(run)
    before = matcher.predict(TEXTS)
    try:
        copy = pickle.loads(pickle.dumps(matcher))
    except (TypeError, pickle.PicklingError) as error:
        assert str(error) and "\n" not in str(error), "pickling is refused with more than one line"
        return
    assert copy.predict(TEXTS) == before, "the copy answers otherwise"


def _answer_of(run: Path) -> list:
    from jaxmatch.inference.matcher import load

    return load(run).predict(TEXTS)


def _spawned(run: Path):
    """A process of its own loads the model while this one uses it."""
    from jaxmatch.inference.matcher import load

    before = load(run).predict(TEXTS)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_answer_of, (run,)) == before, "another process answers otherwise"


def _forked(run: Path):
    """A process forked before the first computation uses the model."""
    child = os.fork()
    if not child:
        status = 1
        try:
            _answer_of(run)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a forked process does not answer"


def _called(function, run: Path):
    def make(folder: Path, generator: random.Random) -> str:
        end = run_command(lambda: function(run), folder)
        return (
            "" if end.status == 0 else f"status {end.status}: {(end.errors.strip().splitlines() or ['no message'])[-1]}"
        )

    return make


def attacks(bench: Bench) -> list[Attack]:
    """One million pairs; threads, pickle, spawned and forked processes."""
    functions = {"8 threads": _threads, "pickle": _pickled, "spawned process": _spawned, "forked process": _forked}
    made = [Attack(f"answers/{name}", _called(function, bench.run)) for name, function in functions.items()]
    return [*made, Attack(f"answers/{PAIRS} pairs", _million(bench))]
