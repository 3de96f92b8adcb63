"""Commands that the system denies something: room, a quota, size of files, descriptors, the right to write."""

import ctypes
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from torture import judge
from torture.attacks import Attack, not_made
from torture.bench import Bench
from torture.processes import as_nobody, limited, run_command

MS_RDONLY, MNT_DETACH = 1, 2


def mounted(folder: Path, options: str, flags: int = 0) -> bool:
    """Mounts a small file system in memory; says whether this user may."""
    folder.mkdir(exist_ok=True)
    return ctypes.CDLL(None).mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options.encode()) == 0


def unmounted(folder: Path) -> None:
    """Takes the file system away."""
    ctypes.CDLL(None).umount2(os.fsencode(folder), MNT_DETACH)


def _swept(
    bench: Bench, folder: Path, place: Path, prepare: Callable[[], None] | None, mend: Callable[[], None]
) -> str:
    """A sweep under a limit must succeed or be refused. Once the limit is lifted, it must give the same results."""
    workdir, cache = place / "workdir", place / "cache"
    words = bench.sweep(workdir, cache)
    end = run_command(words, folder, prepare=prepare)
    if end.status == 0:
        return bench.differs(workdir, end, cache)
    if problem := judge.refused(end, only_line=False):
        return problem
    mend()
    return bench.differs(workdir, run_command(words, folder), cache)


def _full(bench: Bench, kib: int, inodes: int = 0):
    def make(folder: Path, generator: random.Random) -> str:
        place = folder / "small"
        if not mounted(place, f"size={kib}k,mode=0777" + f",nr_inodes={inodes}" * bool(inodes)):
            return not_made(folder)
        try:
            return _swept(bench, folder, place, None, lambda: enlarge_mount(place))
        finally:
            unmounted(place)

    return make


def enlarge_mount(place: Path) -> None:
    """Gives a mounted file system more room."""
    ctypes.CDLL(None).mount(b"tmpfs", os.fsencode(place), b"tmpfs", 32, b"size=500m,nr_inodes=100000")


def _quota(bench: Bench, kib: int):
    """A disk quota, which gives another system error than a full disk (EDQUOT instead of ENOSPC).

    The file system is btrfs, whose quotas need no other programs than its own.
    """

    def make(folder: Path, generator: random.Random) -> str:
        place, image = folder / "quota", folder / "image"
        place.mkdir()
        with open(image, "wb") as file:
            file.truncate(200 << 20)
        commands = (
            ["mkfs.btrfs", "-q", image],
            ["mount", "-o", "loop", image, place],
            ["btrfs", "quota", "enable", place],
            ["btrfs", "qgroup", "limit", f"{kib}K", place],
        )
        try:
            if not all(_try_run(command) for command in commands):
                return not_made(folder)
            return _swept(bench, folder, place, None, lambda: _try_run(["btrfs", "qgroup", "limit", "none", place]))
        finally:
            unmounted(place)

    return make


def _try_run(command: list) -> bool:
    """Runs a command of the system; whether it is there and this user may."""
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _limit(bench: Bench, kind: int, most: int):
    def make(folder: Path, generator: random.Random) -> str:
        return _swept(bench, folder, folder, limited(kind, most), lambda: None)

    return make


def _denied(bench: Bench, what: str):
    """A user who owns nothing, and folders in which they must not write."""

    def make(folder: Path, generator: random.Random) -> str:
        if os.geteuid():
            return not_made(folder)
        place = folder / "place"
        if what == "own":
            place.mkdir()
            os.chmod(place, 0o777)
        else:
            shutil.copytree(bench.half if what == "begun" else bench.workdir, place / "workdir")
        return _swept(bench, folder, place, as_nobody, lambda: None)

    return make


def _predicted(bench: Bench, output: str, prepare: Callable[[], None] | None, names: tuple[str, ...]):
    """Answers into a place that cannot take them."""

    def make(folder: Path, generator: random.Random) -> str:
        words = [
            "predict",
            str(bench.run),
            "--input",
            str(bench.pairs),
            "--output",
            output.replace("FOLDER", str(folder)),
        ]
        os.symlink("loop", folder / "loop")
        (folder / "closed").mkdir()
        os.chmod(folder / "closed", 0o555)
        end = run_command(words, folder, prepare=prepare)
        return judge.refused(end, names) or judge.leftover_files(folder)

    return make


def _printed(bench: Bench, words: list[str]):
    """Standard output on a full device."""

    def make(folder: Path, generator: random.Random) -> str:
        return judge.refused(run_command(words, folder, output="/dev/full"))

    return make


def attacks(bench: Bench) -> list[Attack]:
    """Room, size, descriptors and rights."""
    made = [Attack(f"limits/disk of {kib} KiB", _full(bench, kib)) for kib in (4, 32, 64, 128, 192, 256, 512)]
    made += [Attack(f"limits/{count} inodes", _full(bench, 100_000, count)) for count in (3, 16, 32, 48, 64)]
    made += [Attack(f"limits/quota of {kib} KiB", _quota(bench, kib)) for kib in (64, 128, 192, 256, 384, 512)]
    made += [
        Attack(f"limits/files of {size} bytes", _limit(bench, resource.RLIMIT_FSIZE, size))
        for size in (0, 100, 1000, 2000, 4000)
    ]
    made += [
        Attack(f"limits/{count} descriptors", _limit(bench, resource.RLIMIT_NOFILE, count))
        for count in (6, 12, 24, 32, 48)
    ]
    made += [
        Attack(f"limits/a plain user on a folder of root, {what}", _denied(bench, what))
        for what in ("own", "begun", "finished")
    ]
    outputs = {
        "closed folder": ("FOLDER/closed/answers", as_nobody if not os.geteuid() else None, ("closed",)),
        "loop of links": ("FOLDER/loop", None, ("loop",)),
        "long name": ("FOLDER/" + "n" * 300, None, ("nnn",)),
        "name of 245 characters": ("FOLDER/" + "n" * 256, None, ("nnn",)),
        "a folder": ("FOLDER/closed", None, ("closed",)),
        "no folder": ("FOLDER/none/such/answers", None, ("none",)),
        "below a file": (f"{bench.pairs}/answers", None, ("pairs.tsv",)),
        "full device": ("/dev/full", None, ("/dev/full",)),
        "file of 10 bytes": ("FOLDER/answers", limited(resource.RLIMIT_FSIZE, 10), ("answers",)),
    }
    made += [Attack(f"limits/answers to {name}", _predicted(bench, *values)) for name, values in outputs.items()]
    prints = {
        "table": ["table", str(bench.workdir)],
        "table as JSON": ["table", str(bench.workdir), "--format", "json"],
        "report": ["report", str(bench.workdir), "--output", "-"],
        "predict": ["predict", str(bench.run), "--input", str(bench.pairs), "--output", "-"],
        "evaluate": ["evaluate", str(bench.run), "--input", str(bench.files / "dev.tsv")],
        "data check": ["data", "check", "own", "--task", "classification", "--data-directory", str(bench.files)],
    }
    return made + [
        Attack(f"limits/printed on a full device, {name}", _printed(bench, words)) for name, words in prints.items()
    ]
