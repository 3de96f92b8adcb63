"""A model that answers a million pairs in constant memory."""

import json
import os
import random
import time
from pathlib import Path

from torture.bench import Bench
from torture.processes import Attack, Command

PAIRS = 1_000_000
# MiB that memory may grow by between a fifth and the end of all pairs.
GROWTH = 64


def _million(bench: Bench):
    def make(folder: Path, generator: random.Random) -> str:
        words = ("ba", "bo", "bu", "da", "do", "du", "ka", "ko", "ku", "ma", "mo", "mu", "new")
        block = "".join(
            f"{' '.join(generator.choices(words, k=3))}\t{' '.join(generator.choices(words, k=2))}\n"
            for _ in range(10_000)
        )
        pairs, answers = folder / "pairs.tsv", folder / "answers.jsonl"
        pairs.write_text("text_a\ttext_b\n" + block * (PAIRS // 10_000))
        command = Command(["predict", str(bench.run), "--input", str(pairs), "--output", str(answers)], folder)
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
        if count != PAIRS:
            return f"{count} answers instead of {PAIRS}"
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


def attacks(bench: Bench) -> list[Attack]:
    """One million pairs."""
    return [Attack(f"answers/{PAIRS} pairs", _million(bench))]
