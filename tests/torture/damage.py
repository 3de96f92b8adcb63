"""Every file of a half-done cohort, of a data cache, of a model folder and of a finished sweep, damaged in every
way.
"""

import random
from pathlib import Path

from torture import judge
from torture.attacks import Attack
from torture.bench import Bench
from torture.harm import HARMS, copied, files_below
from torture.processes import run_command

REPLACED = ("a folder", "a pipe", "other")


def _of_half(bench: Bench, file: str, harm: str):
    """A launcher resumes without the damaged file, or refuses and names the working folder."""

    def make(folder: Path, generator: random.Random) -> str:
        workdir = copied(bench.half, folder / "workdir")
        HARMS[harm](workdir / file, generator)
        end = run_command(bench.sweep(workdir), folder)
        if end.status == 0:
            return bench.differs(workdir, end)
        return judge.refused(end, [str(workdir)], only_line=False)

    return make


def _of_cache(bench: Bench, file: str, harm: str):
    """The data is encoded anew."""

    def make(folder: Path, generator: random.Random) -> str:
        workdir, cache = folder / "workdir", copied(bench.cache, folder / "cache")
        HARMS[harm](cache / file, generator)
        end = run_command(bench.sweep(workdir, cache), folder)
        if end.status == 0:
            return bench.differs(workdir, end)
        return judge.refused(end, [str(cache)], only_line=False)

    return make


def _of_model(bench: Bench, file: str, harm: str):
    """The model is refused, or it answers as before."""

    def make(folder: Path, generator: random.Random) -> str:
        run = copied(bench.run, folder / "run")
        HARMS[harm](run / file, generator)
        answers = folder / "answers"
        end = run_command(["predict", str(run), "--input", str(bench.pairs), "--output", str(answers)], folder)
        right = answers.exists() and answers.read_text() == bench.answers
        problem = judge.refused_or_right(end, [str(run)], right) or judge.leftover_files(folder)
        return problem or ("half-written answers" if end.status != 0 and answers.exists() else "")

    return make


def _of_finished(bench: Bench, file: str, harm: str):
    """A table is made of what is whole, or refused with the name of the file."""

    def make(folder: Path, generator: random.Random) -> str:
        workdir = copied(bench.workdir, folder / "workdir")
        HARMS[harm](workdir / file, generator)
        for command in ("table", "report", "ensemble"):
            end = run_command([command, str(workdir)], folder)
            # Records and notes have no checksums, so a changed character may give another valid file.
            if problem := judge.refused_or_sound(end, [str(workdir), file]):
                return f"{command}: {problem}"
        return judge.leftover_files(workdir)

    return make


def attacks(bench: Bench) -> list[Attack]:
    """Each file truncated, flipped, deleted and replaced; those of models several times."""
    cohort = [file for file in files_below(bench.half) if not file.endswith(".lock")]
    newest = max(
        (path for path in bench.half.glob("cohorts/*/checkpoints/*") if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    made = []
    for number, file in enumerate(cohort):
        harms = ["truncated", "flipped", "deleted", REPLACED[number % len(REPLACED)]]
        # Training resumes from the newest checkpoint, so a file of an older one is damaged in one way only.
        if "/checkpoints/" in file and not file.startswith(str(newest.relative_to(bench.half))):
            harms = [harms[number % len(harms)]]
        made += [Attack(f"damage/half-done/{file}/{harm}", _of_half(bench, file, harm)) for harm in harms]
    cache = [file for file in files_below(bench.cache) if not file.startswith("programs")]
    made += [
        Attack(f"damage/cache/{file}/{harm}", _of_cache(bench, file, harm))
        for file in cache
        for harm in HARMS
        if harm != "emptied"
    ]
    model = [file for file in files_below(bench.run) if file.startswith("model")]
    for file in model:
        for harm in HARMS:
            times = 6 if harm in ("flipped", "truncated", "other") else 1
            made += [
                Attack(f"damage/model/{file}/{harm}/{number}", _of_model(bench, file, harm)) for number in range(times)
            ]
    finished = [file for file in files_below(bench.workdir) if file.endswith(".json") and "/model/" not in file]
    for file in finished:
        for harm in HARMS:
            times = 3 if harm in ("flipped", "truncated", "other") else 1
            made += [
                Attack(f"damage/finished/{file}/{harm}/{number}", _of_finished(bench, file, harm))
                for number in range(times)
            ]
    return made
