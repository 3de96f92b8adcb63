"""What is attacked: a small sweep that nothing stopped, its cache, and a sweep that was killed half-way."""

import dataclasses
import json
import shutil
from pathlib import Path

import small_sweep
from killed_launches import kill_self_at

from torture import judge
from torture.processes import Command, CommandResult, run_command

# Two cohorts of two runs: a kill may come before, between and after them.
WORDS = ("--grid.optimizer.learning_rate=0.01,0.003", "--seeds", "2", "--config.execution.maximum_replicas=2")
PAIRS = "text_a\ttext_b\nba bo bu\tba da\nka ma\tmo mu ku\nba\tunseen\n"


@dataclasses.dataclass(frozen=True)
class Bench:
    """Files that attacks copy and never change.

    Attributes:
      files: pairs, vectors and the sweep file.
      workdir: the working folder of the undisturbed sweep.
      cache: its data cache.
      half: the working folder of a sweep that was killed with two checkpoints in its first cohort, and no record.
      pairs: pairs to be answered.
      figure: the values of a figure of the undisturbed sweep.
      table: what the undisturbed sweep printed.
      run: its first run.
      answers: what that model answers to `PAIRS`.
    """

    files: Path
    workdir: Path
    cache: Path
    half: Path
    pairs: Path
    figure: Path
    table: str = ""
    run: Path = Path()
    answers: str = ""

    def sweep(self, workdir: Path, cache: Path | None = None) -> list[str]:
        """The words of the sweep's command."""
        return [
            *small_sweep.command(self.files, workdir, *WORDS),
            f"--config.execution.cache_directory={cache or self.cache}",
        ]

    def differs(self, workdir: Path, end: CommandResult, cache: Path | None = None) -> str:
        """Returns how a sweep that should have succeeded differs from the undisturbed one, or ""."""
        if end.status != 0:
            last = (end.errors.strip().splitlines() or ["no message"])[-1]
            return f"it did not end well, status {end.status}: {last[: judge.PIECES]}"
        if "Traceback" in end.errors:
            return "a traceback, though the status is 0"
        if end.output != self.table:
            return "silently wrong: the table is another"
        if _comparable_results(workdir) != _comparable_results(self.workdir):
            return "silently wrong: records or arrays are others"
        for found, expected in ((workdir, self.workdir), *([(cache, self.cache)] if cache else [])):
            files, right = set(judge.listing(found)), set(judge.listing(expected))
            if files != right:
                return f"left behind: {sorted(files - right)[:5]}; missing: {sorted(right - files)[:5]}"[: judge.PIECES]
        return ""


def _comparable_results(workdir: Path) -> dict:
    """What interruptions must not change, whichever cache was used."""
    found = small_sweep.results(workdir)
    for record, _ in found.values():
        record["config"]["execution"].pop("cache_directory")
    return found


def prepared(folder: Path) -> Bench:
    """Makes what is attacked.

    Raises:
      RuntimeError: a command that nothing disturbs does not end well.
    """
    names = ("files", "undisturbed", "cache", "half", "pairs.tsv", "figures/curves.json")
    bench = Bench(*(folder / name for name in names))
    small_sweep.write_files(bench.files)
    bench.pairs.write_text(PAIRS)
    logs = folder / "logs"
    logs.mkdir()

    def output_of(words: list[str]) -> str:
        end = run_command(words, logs, limit_s=300)
        if end.status != 0:
            raise RuntimeError(f"{words[0]} failed: {end.errors}")
        return end.output

    table = output_of(bench.sweep(bench.workdir))
    for event in range(120, 40, -5):
        shutil.rmtree(bench.half, ignore_errors=True)
        Command(bench.sweep(bench.half), logs, lambda event=event: kill_self_at(event, (bench.half,))).wait()
        steps = [path for path in bench.half.glob("cohorts/*/checkpoints/*") if path.name.isdigit()]
        # A record would leave a smaller cohort to train, if cohort.json is damaged: its results differ by rounding.
        if len(steps) == 2 and not list(bench.half.glob("runs/*")):
            break
    else:
        raise RuntimeError("no kill leaves two checkpoints and no record")
    output_of(["figure", str(bench.workdir), "--output", str(bench.figure.parent)])
    run = sorted((bench.workdir / "runs").glob("[!.]*"))[0]
    answers = output_of(["predict", str(run), "--input", str(bench.pairs), "--output", "-"])
    assert [json.loads(line)["text_a"] for line in answers.splitlines()] == ["ba bo bu", "ka ma", "ba"]
    return dataclasses.replace(bench, table=table, run=run, answers=answers)
