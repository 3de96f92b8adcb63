"""Commands that the system denies something: room, size of files, descriptors, the right to write."""

import ctypes
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

from torture import judge
from torture.bench import Bench
from torture.processes import Attack, as_nobody, limited, not_made, run_command

MNT_DETACH, MS_REMOUNT = 2, 32


def _mount(folder: Path, options: str, flags: int = 0) -> bool:
    """Mounts a file system in memory; says whether this user may."""
    return ctypes.CDLL(None).mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options.encode()) == 0


def _swept(
    bench: Bench,
    folder: Path,
    place: Path,
    prepare: Callable[[], None] = lambda: None,
    mend: Callable[[], object] = lambda: None,
) -> str:
    """A sweep under a limit must succeed or be refused. Once the limit is lifted, it must give the same results."""
    workdir, cache = place / "workdir", place / "cache"
    words = bench.sweep(workdir, cache)
    end = run_command(words, folder, prepare=prepare)
    if end.status != 0:
        if problem := judge.refused(end, only_line=False):
            return problem
        mend()
        end = run_command(words, folder)
    return bench.differs(workdir, end, cache)


def _full(bench: Bench, size: str):
    def make(folder: Path, generator: random.Random) -> str:
        place = folder / "small"
        place.mkdir()
        if not _mount(place, f"{size},mode=0777"):
            return not_made(folder)
        try:
            enlarge = lambda: _mount(place, "size=500m,nr_inodes=100000", MS_REMOUNT)  # noqa: E731
            return _swept(bench, folder, place, mend=enlarge)
        finally:
            ctypes.CDLL(None).umount2(os.fsencode(place), MNT_DETACH)

    return make


def _limit(bench: Bench, kind: int, most: int):
    return lambda folder, generator: _swept(bench, folder, folder, limited(kind, most))


def _predicted(bench: Bench, output: str, name: str, prepare: Callable[[], None] = lambda: None):
    """Answers into a place that cannot take them."""

    def make(folder: Path, generator: random.Random) -> str:
        target = output.replace("FOLDER", str(folder))
        (folder / "closed").mkdir()
        os.chmod(folder / "closed", 0o555)
        words = ["predict", str(bench.run), "--input", str(bench.pairs), "--output", target]
        return judge.refused(run_command(words, folder, prepare=prepare), [name]) or judge.leftover_files(folder)

    return make


def _printed(words: list[str]):
    """Standard output on a full device."""
    return lambda folder, generator: judge.refused(run_command(words, folder, output="/dev/full"))


def attacks(bench: Bench) -> list[Attack]:
    """Room, size, descriptors and rights."""
    sizes = [f"size={kib}k" for kib in (4, 32, 64, 128, 192, 256, 512)]
    sizes += [f"size=100m,nr_inodes={count}" for count in (3, 16, 32, 48, 64)]
    made = {f"disk of {size}": _full(bench, size) for size in sizes}
    for name, kind, limits in (
        ("bytes a file", resource.RLIMIT_FSIZE, (0, 100, 1000, 2000, 4000)),
        ("descriptors", resource.RLIMIT_NOFILE, (6, 12, 24, 32, 48)),
    ):
        made |= {f"{most} {name}": _limit(bench, kind, most) for most in limits}
    outputs = {
        "long name": ("FOLDER/" + "n" * 300, "nnn"),
        "name of 256 characters": ("FOLDER/" + "n" * 256, "nnn"),
        "a folder": ("FOLDER/closed", "closed"),
        "no folder": ("FOLDER/none/such/answers", "none"),
        "below a file": (f"{bench.pairs}/answers", "pairs.tsv"),
        "full device": ("/dev/full", "/dev/full"),
        "file of 10 bytes": ("FOLDER/answers", "answers", limited(resource.RLIMIT_FSIZE, 10)),
    }
    if not os.geteuid():
        outputs["closed folder"] = ("FOLDER/closed/answers", "closed", as_nobody)
    made |= {f"answers to {name}": _predicted(bench, *values) for name, values in outputs.items()}
    for words in (
        ["table", str(bench.workdir)],
        ["report", str(bench.workdir), "--output", "-"],
        ["predict", str(bench.run), "--input", str(bench.pairs), "--output", "-"],
        ["evaluate", str(bench.run), "--input", str(bench.files / "dev.tsv")],
        ["data", "check", "own", "--task", "classification", "--data-directory", str(bench.files)],
    ):
        made[f"{words[0]} on a full device"] = _printed(words)
    return [Attack(f"limits/{name}", make) for name, make in made.items()]
