"""The table of the same programs before they were made lighter, and now."""

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.accelerators import tables
from benchmarks.accelerators.targets import TARGETS

INTRODUCTION = """# Compiled programs before and now

"Before" is commit e01a29f, the first that had `make accelerators`. Its programs were compiled by the same versions of
JAX and of the compilers, and counted by today's rules:

    git worktree add ../before e01a29f
    cp benchmarks/accelerators/hlo.py ../before/benchmarks/accelerators/
    (cd ../before; python -m benchmarks.accelerators --environments ENVIRONMENTS --results results)

ENVIRONMENTS is the folder `.cache/accelerators` that `make accelerators` creates. `results/figures.json` is
`before.json` here. [The page of today's programs](README.md) explains the columns, and says why some of them do not
compile. For the H100 and the A100, all programs were compiled. For TPUs, only those of ten runs on a v5e were
(`--target v5e --replicas 10`).
"""
HEADINGS = ("model", "program", "replicas", "batch", "precision")
FIGURES = ("temporaries (GB)", "moved (GB)", "kernels", "least time (ms)")


def markdown(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the figures of both as Markdown, with one section for each device.

    Arguments:
      before: name of a program -> its figures at the earlier commit. Only these programs have a row.
      now: name of a program -> its figures today, at least of the same programs.
    """
    sections = [INTRODUCTION.strip()]
    columns = [*HEADINGS, *(f"{figure}: {when}" for figure in FIGURES for when in ("before", "now"))]
    sides = ["---"] * len(HEADINGS) + ["---:"] * (2 * len(FIGURES))
    for target in TARGETS:
        names = [name for name, row in before.items() if row["target"] == target]
        names.sort(key=lambda name: tables.sort_key(before[name]))
        if not names:
            continue
        lines = [_line(columns), _line(sides)]
        for name in names:
            pairs = zip(_figures(before[name]), _figures(now[name]), strict=True)
            lines.append(_line([before[name][axis] for axis in HEADINGS] + [cell for pair in pairs for cell in pair]))
        sections += [f"## {target}", "\n".join(lines)]
        problems = [before[name] for name in names if "problem" in before[name]]
        if problems:
            reasons = (f"- {tables.title(row)}: {row['problem']}" for row in problems)
            sections.append("Did not compile before:\n\n" + "\n".join(reasons))
    return "\n\n".join(sections) + "\n"


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "problem" in row:
        return ("does not compile", "", "", "")
    seconds = TARGETS[row["target"]].least_seconds(row["precision"], row["moved"], row["operations"], row["kernels"])
    once = "≥ " * tables.counts_a_loop_once(row)
    return (
        f"{row['temporaries'] / 1e9:.2f}",
        f"{row['moved'] / 1e9:.1f}",
        str(row["kernels"]),
        f"{once}{1e3 * seconds:.2f}",
    )


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
