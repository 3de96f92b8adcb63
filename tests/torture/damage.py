"""Every file of a half-done cohort, a data cache, a model folder and a finished sweep, damaged in every way."""

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from torture import judge, mutations
from torture.bench import Bench
from torture.processes import Attack, run_command

REPLACED = ("a folder", "other")
OTHERS = (b"{}", b"[]", b"null", b"\x00" * 64, b"PK\x03\x04", b"other\n" * 9, b'{"format": 1}')


def _rewritten(change: Callable[[bytes, random.Random], bytes]) -> Callable[[Path, random.Random], None]:
    def harm(file: Path, generator: random.Random) -> None:
        content = file.read_bytes()
        file.write_bytes(change(content, generator) if content else b"")

    return harm


def _folder(file: Path, generator: random.Random) -> None:
    file.unlink()
    file.mkdir()


HARMS = {
    "truncated": _rewritten(mutations.truncated),
    "flipped": _rewritten(mutations.flipped),
    "deleted": lambda file, generator: file.unlink(),
    "emptied": lambda file, generator: file.write_bytes(b""),
    "a folder": _folder,
    "other": lambda file, generator: file.write_bytes(generator.choice([*OTHERS, generator.randbytes(200)])),
}


def _files_below(place: Path) -> list[str]:
    """The files of a folder that hold something, by their relative path."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.stat().st_size)


def _damaged(source: Path, judged: Callable[[Path, Path], str], file: str, harm: str):
    """Damages a file of a copy of a folder, and judges what commands do with it, by (the copy, a scratch folder)."""

    def make(folder: Path, generator: random.Random) -> str:
        copy = Path(shutil.copytree(source, folder / "copy"))
        HARMS[harm](copy / file, generator)
        return judged(copy, folder)

    return make


def attacks(bench: Bench) -> list[Attack]:
    """Each file truncated, flipped, deleted and replaced; those of models several times."""

    def resumed(workdir: Path, folder: Path) -> str:
        """A launcher resumes without the damaged file, or refuses and names the working folder."""
        end = run_command(bench.sweep(workdir), folder)
        return bench.differs(workdir, end) if end.status == 0 else judge.refused(end, [str(workdir)], only_line=False)

    def encoded(cache: Path, folder: Path) -> str:
        """The data is encoded anew."""
        end = run_command(bench.sweep(folder / "workdir", cache), folder)
        if end.status == 0:
            return bench.differs(folder / "workdir", end)
        return judge.refused(end, [str(cache)], only_line=False)

    def answered(run: Path, folder: Path) -> str:
        """The model is refused, or it answers as before."""
        answers = folder / "answers"
        end = run_command(["predict", str(run), "--input", str(bench.pairs), "--output", str(answers)], folder)
        right = answers.exists() and answers.read_text() == bench.answers
        problem = judge.refused_or_right(end, [str(run)], right) or judge.leftover_files(folder)
        return problem or ("half-written answers" if end.status != 0 and answers.exists() else "")

    def shown(workdir: Path, folder: Path) -> str:
        """A table is made of what is whole, or refused. Records have no checksums: another character may be as good."""
        for command in ("table", "report", "ensemble"):
            if problem := judge.refused_or_sound(run_command([command, str(workdir)], folder), [str(workdir)]):
                return f"{command}: {problem}"
        return judge.leftover_files(workdir)

    made = []

    def add(kind: str, source: Path, judged: Callable, file: str, harms: Iterable[str], times: int = 1) -> None:
        for harm in harms:
            for number in range(times if harm in ("flipped", "truncated", "other") else 1):
                make = _damaged(source, judged, file, harm)
                made.append(Attack(f"damage/{kind}/{file}/{harm}/{number}", make))

    steps = [path for path in bench.half.glob("cohorts/*/checkpoints/*") if path.name.isdigit()]
    newest = str(max(steps, key=lambda path: int(path.name)).relative_to(bench.half))
    for number, file in enumerate(file for file in _files_below(bench.half) if not file.endswith(".lock")):
        harms = ["truncated", "flipped", "deleted", REPLACED[number % len(REPLACED)]]
        # Training resumes from the newest checkpoint, so a file of an older one is damaged in one way only.
        if "/checkpoints/" in file and not file.startswith(newest):
            harms = [harms[number % len(harms)]]
        add("half-done", bench.half, resumed, file, harms)
    for file in _files_below(bench.cache):
        if not file.startswith("programs"):
            add("cache", bench.cache, encoded, file, [harm for harm in HARMS if harm != "emptied"])
    for file in _files_below(bench.run):
        if file.startswith("model"):
            add("model", bench.run, answered, file, HARMS, 6)
    for file in _files_below(bench.workdir):
        if file.endswith(".json") and "/model/" not in file:
            add("finished", bench.workdir, shown, file, HARMS, 3)
    return made
