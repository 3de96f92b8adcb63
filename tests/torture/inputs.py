"""Broken files of commands."""

import gzip
import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import small_sweep

from torture import judge
from torture.bench import Bench
from torture.mutations import MAY_BE_GOOD, MUST_BE_REFUSED, binary, flipped, json_replaced, not_utf8, truncated
from torture.processes import Attack, run_command

RESULTS = Path(__file__).parents[2] / "results"
CHANGES = (*MUST_BE_REFUSED, *MAY_BE_GOOD)
PLACES = ("a folder", "a pipe", "a loop of links", "empty", "missing")


def _judged(end, change, names: Iterable[str]) -> str:
    return judge.refused(end, names) if change in MUST_BE_REFUSED else judge.refused_or_sound(end, names)


def _replaced(path: Path, kind: str) -> None:
    """Puts something that is no plain file in its place."""
    path.unlink(missing_ok=True)
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "a loop of links":
        path.symlink_to(path.name)


def _file(write: Callable[[Path], Path], words: Callable[[Path], list[str]], change=None, kind: str = ""):
    """A file of a command that is changed, or replaced by something that is not a file, or neither."""

    def make(folder: Path, generator: random.Random) -> str:
        path = write(folder)
        if kind:
            _replaced(path, kind)
        elif change:
            path.write_bytes(change(path.read_bytes(), generator))
        output, names = folder / "output", [path.name, str(path.parent)]
        end = run_command([word.replace("OUTPUT", str(output)) for word in words(folder)], folder)
        if not kind and not change:  # else refusals of the damaged file would show nothing
            return "" if end.status == 0 else f"a good file is not accepted: {end.errors.strip()[-300:]}"
        if kind:
            problem = judge.refused(end, names)
        elif path.name.startswith("broken"):  # unreadable lines of a vector file are counted, reported and skipped
            problem = judge.refused_or_sound(end, names)
        elif path.suffix == ".py":  # a misspelled setting or column of a table is named, wherever it was written
            problem = judge.refused_or_sound(end)
        else:
            problem = _judged(end, change, names)
        if not problem and end.status != 0 and output.is_file():
            problem = "an output file is left, though the command failed"
        return problem or judge.leftover_files(folder)

    return make


def _copy(source: Path, target: str, name: str):
    """Copies a folder, and gives one of the copied files."""

    def write(folder: Path) -> Path:
        return sorted(Path(shutil.copytree(source, folder / target)).glob(name))[0]

    return write


def _vectors(bench: Bench, suffix: str):
    def write(folder: Path) -> Path:
        path, content = Path(shutil.copytree(bench.files, folder / "files")) / f"broken.{suffix}", io.BytesIO()
        plain = (bench.files / "vectors.txt").read_bytes()
        if suffix == "zip":
            with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("vectors.txt", plain)
        path.write_bytes({"txt": plain, "txt.gz": gzip.compress(plain), "zip": content.getvalue()}[suffix])
        return path

    return write


def _pairs(bench: Bench, suffix: str):
    rows = "".join(json.dumps({"text_a": "ba bo", "text_b": "ka", "id": number}) + "\n" for number in range(4))

    def write(folder: Path) -> Path:
        path = folder / f"asked.{suffix}"
        path.write_text(bench.pairs.read_text() if suffix == "tsv" else rows)
        return path

    return write


def _timing(folder: Path) -> Path:
    (folder / "workdir").mkdir()
    return Path(shutil.copy(RESULTS / "re2_timing" / "timing.json", folder / "workdir"))


def attacks(bench: Bench) -> list[Attack]:
    """Files of commands, changed or replaced."""
    made: list[Attack] = []

    def add(family: str, make, count: int = 1):
        made.extend(Attack(f"inputs/{family}/{number}", make) for number in range(count))

    def of(*words: str):
        return lambda folder: [word.replace("FOLDER", str(folder)) for word in words]

    check = ("data", "check", "own", "--task", "classification", "--data-directory", "FOLDER/files", "--vectors")
    packed = (truncated, flipped, binary)
    # family -> how the file is written, the words of the command, the changes, how often each is made
    files = {
        "own data": (_copy(bench.files, "files", "dev.tsv"), of(*check, "hashed"), CHANGES, 12),
        "vectors": (_vectors(bench, "txt"), of(*check, "FOLDER/files/broken.txt"), CHANGES, 8),
        "vectors gz": (_vectors(bench, "txt.gz"), of(*check, "FOLDER/files/broken.txt.gz"), packed, 25),
        "vectors zip": (_vectors(bench, "zip"), of(*check, "FOLDER/files/broken.zip"), packed, 25),
        "labeled pairs": (
            _copy(bench.files, "files", "dev.tsv"),
            of("evaluate", str(bench.run), "--input", "FOLDER/files/dev.tsv"),
            CHANGES,
            4,
        ),
        "figure": (
            lambda folder: Path(shutil.copy(bench.figure, folder)),
            of("figure", "FOLDER/curves.json", "--output", "FOLDER/drawn"),
            (json_replaced, truncated, binary),
            12,
        ),
        "timing": (_timing, of("table", "FOLDER/workdir"), (truncated, not_utf8), 20),
        "sweep file": (
            _copy(bench.files, "files", "small.py"),
            lambda folder: [*small_sweep.command(folder / "files", folder / "workdir"), "--dry-run"],
            packed,
            15,
        ),
    }
    for suffix in ("tsv", "jsonl"):
        words = of("predict", str(bench.run), "--input", f"FOLDER/asked.{suffix}", "--output", "OUTPUT")
        files[f"pairs {suffix}"] = (_pairs(bench, suffix), words, CHANGES, 15)
    for file, name in {"record": "runs/*/record.json", "sweep.json": "sweep.json"}.items():
        for command in ("table", "report", "figure"):
            words = of(command, "FOLDER/workdir", *(["--output", "OUTPUT"] if command == "figure" else []))
            # Values of a record that no program of this package writes are not looked for.
            files[f"{file} of {command}"] = (_copy(bench.workdir, "workdir", name), words, (truncated, not_utf8), 25)
    for name, (write, words, changes, count) in files.items():
        add(f"{name}/undamaged", _file(write, words))
        for change in changes:
            add(f"{name}/{change.__name__}", _file(write, words, change), count)
        for kind in PLACES:
            # A missing record is no error: its run may still be training, and a table states how many runs are done.
            absent = kind in ("missing", "a loop of links") and name.startswith(
                ("own", "record", "sweep.json", "timing")
            )
            # Pairs may come from a pipe, for which a command waits as any program does; JSON lines may be none.
            sound = (name, kind) in (("pairs tsv", "a pipe"), ("pairs jsonl", "a pipe"), ("pairs jsonl", "empty"))
            if not absent and not sound:
                add(f"{name}/{kind}", _file(write, words, kind=kind))
    return made
