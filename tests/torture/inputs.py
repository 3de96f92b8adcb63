"""Broken inputs of all readers and commands."""

import gzip
import io
import json
import os
import random
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import reader_formats
import small_sweep

from jaxmatch.errors import InputError
from torture import command_lines, judge
from torture.attacks import Attack
from torture.bench import Bench
from torture.harm import copied
from torture.mutations import MAY_BE_GOOD, MUST_BE_REFUSED, binary, flipped, json_replaced, not_utf8, truncated
from torture.processes import run_command

RESULTS = Path(__file__).parents[2] / "results"


def _read(name: str, place: Path) -> Callable[[], int]:
    """A reader called as the command would."""

    def call() -> int:
        read, file, _ = reader_formats.FORMATS[name]
        try:
            split = read(place / file)
        except (InputError, OSError) as error:
            print(f"jaxmatch: {error}", file=sys.stderr)
            return judge.REFUSED
        assert len(split.text_a) == len(split.text_b) == len(split.labels), "columns of different length"
        assert all(text.strip() for text in (*split.text_a, *split.text_b)), "an empty text is accepted"
        return 0

    return call


def _judged(end, change, names) -> str:
    return judge.refused(end, names) if change in MUST_BE_REFUSED else judge.refused_or_sound(end, names)


def _reader(name: str, change):
    def make(folder: Path, generator: random.Random) -> str:
        _, path = reader_formats.placed(folder, name, lambda content: change(content, generator))
        return _judged(run_command(_read(name, folder), folder), change, [path.name])

    return make


def _replaced(path: Path, generator: random.Random, kind: str) -> None:
    """Something that is no plain file in its place."""
    path.unlink(missing_ok=True)
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a loop of links":
        path.symlink_to(path.name)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "empty":
        path.write_bytes(b"")


PLACES = ("a folder", "a pipe", "a loop of links", "a device", "empty", "missing")


def _file(
    write: Callable[[Path], Path],
    words: Callable[[Path], list[str]],
    change,
    names=lambda path: [path.name],
    kind: str = "",
):
    """A file of a command, changed, or replaced by something that is not a file."""

    def make(folder: Path, generator: random.Random) -> str:
        path = write(folder)
        if kind:
            _replaced(path, generator, kind)
        else:
            path.write_bytes(change(path.read_bytes(), generator))
        output = folder / "output"
        end = run_command([word.replace("OUTPUT", str(output)) for word in words(folder)], folder)
        if kind:
            problem = judge.refused(end, names(path))
        elif path.name.startswith("broken"):  # unreadable lines of a vector file are counted, reported and skipped
            problem = judge.refused_or_sound(end, names(path))
        else:
            problem = _judged(end, change, names(path))
        if not problem and end.status != 0 and output.is_file():
            problem = "an output file is left, though the command failed"
        return problem or judge.leftover_files(folder)

    return make


def _undamaged(write: Callable[[Path], Path], words: Callable[[Path], list[str]]):
    """The undamaged file must be accepted. Otherwise, refusals of the damaged file would show nothing."""

    def make(folder: Path, generator: random.Random) -> str:
        write(folder)
        end = run_command([word.replace("OUTPUT", str(folder / "output")) for word in words(folder)], folder)
        return "" if end.status == 0 else f"a good file is not accepted: {end.errors.strip()[-300:]}"

    return make


def _copies(bench: Bench, name: str):
    """Writes the small sweep's files; gives one of them."""

    def write(folder: Path) -> Path:
        copied(bench.files, folder / "files")
        return folder / "files" / name

    return write


def _vectors(bench: Bench, suffix: str):
    def write(folder: Path) -> Path:
        copied(bench.files, folder / "files")
        content = (bench.files / "vectors.txt").read_bytes()
        path = folder / "files" / f"broken.{suffix}"
        if suffix == "txt.gz":
            content = gzip.compress(content)
        if suffix == "zip":
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("vectors.txt", content)
            content = packed.getvalue()
        path.write_bytes(content)
        return path

    return write


def _check(vectors: str = "") -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        found = ["data", "check", "own", "--task", "classification", "--data-directory", str(folder / "files")]
        return [*found, "--vectors", str(folder / "files" / vectors)] if vectors else found

    return words


def _pairs(bench: Bench, suffix: str):
    def write(folder: Path) -> Path:
        path = folder / f"asked.{suffix}"
        if suffix == "tsv":
            path.write_bytes(bench.pairs.read_bytes())
        else:
            path.write_text(
                "".join(json.dumps({"text_a": "ba bo", "text_b": "ka", "id": number}) + "\n" for number in range(4))
            )
        return path

    return write


def _sweep_notes(bench: Bench):
    def write(folder: Path) -> Path:
        copied(bench.workdir, folder / "workdir")
        return folder / "workdir" / "sweep.json"

    return write


def _record(bench: Bench):
    def write(folder: Path) -> Path:
        copied(bench.workdir, folder / "workdir")
        return sorted((folder / "workdir").glob("runs/*/record.json"))[0]

    return write


def _figure(bench: Bench):
    def write(folder: Path) -> Path:
        return Path(shutil.copy(bench.figure, folder))

    return write


def _timing(folder: Path) -> Path:
    (folder / "workdir").mkdir()
    return Path(shutil.copy(RESULTS / "re2_timing" / "timing.json", folder / "workdir"))


def attacks(bench: Bench) -> list[Attack]:
    """More than 2,000 broken inputs."""
    made: list[Attack] = []

    def add(family: str, make, count: int = 1):
        made.extend(Attack(f"inputs/{family}/{number}", make) for number in range(count))

    changes = (*MUST_BE_REFUSED, *MAY_BE_GOOD)
    for name in reader_formats.FORMATS:
        for change in changes:
            add(f"reader of {name}/{change.__name__}", _reader(name, change), 6)
    files = {
        "own data": (_copies(bench, "dev.tsv"), _check(), changes, 12),
        "vectors": (_vectors(bench, "txt"), _check("broken.txt"), changes, 8),
        "vectors gz": (_vectors(bench, "txt.gz"), _check("broken.txt.gz"), (truncated, flipped, binary), 25),
        "vectors zip": (_vectors(bench, "zip"), _check("broken.zip"), (truncated, flipped, binary), 25),
    }
    for file, write in {"record": _record(bench), "sweep.json": _sweep_notes(bench)}.items():
        for command in ("table", "report", "figure"):
            files[f"{file} of {command}"] = (write, _on_workdir(command), (json_replaced, truncated, not_utf8), 25)
    for suffix in ("tsv", "jsonl"):
        files[f"pairs {suffix}"] = (
            _pairs(bench, suffix),
            lambda folder, suffix=suffix: [
                "predict",
                str(bench.run),
                "--input",
                str(folder / f"asked.{suffix}"),
                "--output",
                "OUTPUT",
            ],
            changes,
            15,
        )
    files["labeled pairs"] = (
        _copies(bench, "dev.tsv"),
        lambda folder: ["evaluate", str(bench.run), "--input", str(folder / "files" / "dev.tsv")],
        changes,
        4,
    )
    files["figure"] = (
        _figure(bench),
        lambda folder: ["figure", str(folder / "curves.json"), "--output", str(folder / "drawn")],
        (json_replaced, truncated, binary),
        12,
    )
    files["timing"] = (
        _timing,
        lambda folder: ["table", str(folder / "workdir")],
        (json_replaced, truncated, not_utf8),
        20,
    )
    files["sweep file"] = (
        _copies(bench, "small.py"),
        lambda folder: [*small_sweep.command(folder / "files", folder / "workdir"), "--dry-run"],
        (truncated, flipped, binary),
        15,
    )
    for name, (write, words, kinds, count) in files.items():
        made.append(Attack(f"inputs/{name}/undamaged", _undamaged(write, words)))
        for change in kinds:
            add(f"{name}/{change.__name__}", _file(write, words, change, _names), count)
        for kind in PLACES:
            # A missing record is no error: its run may still be training, and a table states how many runs are done.
            absent = kind in ("missing", "a loop of links") and name.startswith(
                ("own", "record", "sweep.json", "timing")
            )
            # Pairs may come from a pipe, for which a command waits as any program does; JSON lines may be none.
            sound = (name, kind) in (("pairs tsv", "a pipe"), ("pairs jsonl", "a pipe"), ("pairs jsonl", "empty"))
            if not absent and not sound:
                add(f"{name}/{kind}", _file(write, words, None, _names, kind))
    return made + command_lines.attacks(bench)


def _on_workdir(command: str) -> Callable[[Path], list[str]]:
    more = ["--output", "OUTPUT"] if command == "figure" else []
    return lambda folder: [command, str(folder / "workdir"), *more]


def _names(path: Path) -> list[str]:
    """What may stand for a file: its name, or its folder where something of it is missing."""
    return [path.name, str(path.parent)]
