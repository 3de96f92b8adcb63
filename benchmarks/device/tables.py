"""The tables of the measurements on devices."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import reports
from benchmarks.accelerators.__main__ import RESULTS as WITHOUT_DEVICE
from benchmarks.accelerators.__main__ import name_of
from benchmarks.accelerators.targets import target_of
from benchmarks.device import dispatch_table
from benchmarks.device.case import VARIANTS
from benchmarks.device.stages import (
    CASE,
    CASES,
    DISPATCHED,
    GPU_ONLY_SUFFIXES,
    SERIES,
    STAGES,
    name_of_series,
    name_of_steps,
)
from benchmarks.device.stages import name_of as name_of_case
from benchmarks.items.replicas import ACCELERATOR_GOALS, CEILING_GOALS, PEER_GOALS, PEER_PRECISIONS
from benchmarks.items.replicas import ITEM as REPLICAS
from jaxmatch.files import read_json, write_atomically
from jaxmatch.reporting.records import short_commit

NOT_RUN = "compiled, not run"
# The number of kernels to show for each program. The file holds more.
SLOWEST = 10
# The target whose figures are shown before anything was measured on a device.
FALLBACK_TARGET = "h100"
INTRODUCTION = """# On a device

`make device` measures the programs that `make accelerators` compiles: a training step on rows of 40 tokens, with the
settings of `configs/*_snli.py`. Each cell has the value measured on the device. In brackets is the value computed
without a device (`../accelerators`) for the same kind of device; for an H200, that of an H100. Without a GPU, XLA
cannot time kernels and uses cuBLAS for all matrix products. On a GPU, it may choose other kernels.

- temporaries: from XLA's `memory_analysis()`.
- in use: the most memory in use at any time, including arguments.
- moved: the bytes that a step reads and writes, from the compiled program. On a TPU, the number is the compiler's own,
  which counts the body of a loop once.
- least: a lower bound for the time of a step. It is the larger of two quotients: moved bytes by bandwidth, and the
  operations of the matrix products by peak performance, both as published. On a GPU, 4 microseconds are added for each
  kernel. A step can take less than these microseconds if kernels overlap, or start together as a graph. A device
  without published figures in `benchmarks/accelerators/targets.py` has no bound.
- a step: the median time of a step that the host waits for.
- in a row: the time of a step if the host starts the next one without waiting, as in training.
- loss: the loss after three steps. Programs that compute the same have the same loss, up to rounding.

Names of models:

- `re2`: as training compiles it.
- `-untuned`: as compiled without a device.
- `-triton`: with XLA's own kernels for matrix products beside those of cuBLAS.
- Other names are attempts (`benchmarks/NOTES.md`), measured with `benchmarks.device.case`. `-unaligned`: the code
  before commit 0e7e81f, without filled-up rows. `152`: hidden size 152. `304`: word vectors of 304 numbers. `-kernels`:
  `model.kernels=pallas`, since removed; its four numbers are the tokens and inputs of a block, the warps and the stages
  (default 128, 32, 8, 3)."""
HEADINGS = (
    "model",
    "runs x batch",
    "precision",
    "products in",
    "temporaries (GB)",
    "in use (GB)",
    "moved (GB)",
    "kernels",
    "least (ms)",
    "a step (ms)",
    "times the least",
    "in a row (ms)",
    "loss",
    "compiled in (s)",
    "commit",
)


def markdown(results: Mapping[str, Mapping[str, Any]], without_device: Mapping[str, Any]) -> str:
    """Returns all results as Markdown.

    Arguments:
      results: folder of a device -> stage -> the content of its file.
      without_device: the figures of `benchmarks.accelerators`, by name.
    """
    sections = [INTRODUCTION]
    for stages in results.values():
        sections.append(f"## {next(iter(stages.values()))['device']}")
        for name in STAGES:
            if name in stages:
                sections += _stage(name, stages[name], without_device)
        missing = [name for name in STAGES if name not in stages]
        if missing and not any(kept["quick"] for kept in stages.values()):
            sections.append(f"Stages that have not run on this device yet: {', '.join(missing)}.")
    if not any(not stages[name]["quick"] for stages in results.values() for name in stages):
        sections += [
            f"## No device yet: {NOT_RUN}",
            f"Compiled for {FALLBACK_TARGET}.",
            _figures(_cases_without([]), without_device, FALLBACK_TARGET),
        ]
    return "\n\n".join(sections) + "\n"


def _stage(name: str, kept: Mapping[str, Any], without_device: Mapping[str, Any]) -> list[str]:
    found = kept["found"]
    sections = [
        f"### {name}",
        " ".join(STAGES[name][0].__doc__.split()),
        _measured_with(kept) + ("; tiny sizes, from which nothing follows" * kept["quick"]),
    ]
    if name == "compiled":
        rows = sorted((row for row in found.values() if "problem" not in row), key=_measurement_order)
        if rows:
            kind = target_of(rows[0]["kind"])
            bound = f"the published figures of {kind.name}" if kind else "no published figures, so no bound"
            sections.append(f"{rows[0]['kind']}: {bound}.")
            computed = (kind.compiled_as or kind.name) if kind else ""
            sections += _of_versions(without_device, computed)
            others = [] if kept["quick"] else _cases_without(found, kind is None or kind.platform == "cuda")
            sections.append(_figures([*rows, *others], without_device, computed))
            sections += _traces(row for row in rows if _measurement_order(row) < len(CASES))
    elif name == "dispatched":
        sections += dispatch_table.sections([piece for piece in found.values() if "problem" not in piece])
        sections += _unmeasured(name, kept)
    elif name in ("replicas", "more-replicas"):
        measured = [piece for piece in found.values() if "problem" not in piece]
        sections += _unmeasured(name, kept)
        sections += _problems(found)
        if measured:
            sections += _many_runs(measured)
        return [*sections, f"    {kept['command']}"]
    else:
        ended = f"{len(found['runs'])} of {found['planned']} runs have ended"
        sections.append(f"{found['status']} after {found['seconds']:.0f} s; {ended}.")
        sections += [found["table"].strip()] if found["table"] else []
        return [*sections, f"    {kept['command']}"]
    return [*sections, *_problems(found), f"    {kept['command']}"]


def _many_runs(pieces: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the table of the points of `replicas`, each with the commit that it was measured with, and the notes."""
    points = {
        (row["batch"], row["replicas"], row["precision"]): {
            **row,
            "commit": short_commit(piece.get("commit"), reports.DIGITS),
        }
        for piece in pieces
        for row in piece["rows"]
    }
    notes = dict.fromkeys(note for piece in pieces for note in piece["notes"])
    columns = (*REPLICAS.columns, reports.Column("commit", "commit"))
    lines = reports.table_lines([points[point] for point in sorted(points)], columns)
    return [f"**{REPLICAS.title}**", "\n".join(lines), "\n".join(f"- {note}" for note in notes)]


def _measured_with(kept: Mapping[str, Any]) -> str:
    """Returns the drivers and the versions of JAX, each with its commits."""
    pieces = [each for each in kept["found"].values() if isinstance(each, Mapping) and "driver" in each]
    together: dict[str, list[str]] = {}
    for piece in pieces or [{**kept, "jax": kept["versions"]["jax"]}]:
        commits = together.setdefault(f"{piece['driver']}; jax {piece['jax']}", [])
        at = short_commit(piece.get("commit"), reports.DIGITS)
        commits += [at] if at and at not in commits else []
    return ". ".join(f"{name}; commit {', '.join(commits)}" if commits else name for name, commits in together.items())


def _of_versions(without_device: Mapping[str, Any], target: str) -> list[str]:
    """Returns a line with the versions that compiled the values in brackets. They may differ from the device's."""
    known = (row.get("versions") for row in without_device.values() if row.get("target") == target)
    versions = {", ".join(f"{name} {version}" for name, version in each.items()) for each in known if each}
    return [f"In brackets: compiled with {'; '.join(sorted(versions))}."] if versions else []


def _measurement_order(row: Mapping[str, Any]) -> int:
    """Returns the place of a row in the order of measurement."""
    case = tuple(row[field] for field in CASE)
    return CASES.index(case) if case in CASES else len(CASES)


def _cases_without(found: Collection[str], on_a_gpu: bool = True) -> list[dict[str, Any]]:
    """Returns the cases that are still to be measured, in the order of measurement."""
    cases = [case for case in CASES if on_a_gpu or not case[0].endswith(GPU_ONLY_SUFFIXES)]
    return [dict(zip(CASE, case, strict=True)) for case in cases if name_of_case(case) not in found]


def _unmeasured(name: str, kept: Mapping[str, Any]) -> list[str]:
    """Returns a line with what a stage is still to measure, with its goals. `_problems` reports what failed."""
    pieces = {name_of_series(series): _goals(series) for series in SERIES.get(name, ())}
    if name == "dispatched":
        pieces = {name_of_steps(steps): "" for steps in DISPATCHED}
    missing = [f"{piece}{goal}" for piece, goal in pieces.items() if piece not in kept["found"]]
    return [f"Not measured yet: {'; '.join(missing)}."] if missing and not kept["quick"] else []


def _goals(series: tuple[int, tuple[int, ...], str]) -> str:
    """Returns the goals of a series in brackets, or "" if it has no goals."""
    batch, counts, precision = series
    criteria = (
        ("a run ≤ {:.2f}", ACCELERATOR_GOALS),
        ("sorted peer ≥ {:.0f}", PEER_GOALS if precision in PEER_PRECISIONS else {}),
        ("ceiling ≥ {:.0%}", CEILING_GOALS),
    )
    texts = [
        words.format(goals[count, batch]) for words, goals in criteria for count in counts if (count, batch) in goals
    ]
    return f" (goal: {', '.join(texts)})" if texts else ""


def _problems(found: Mapping[str, Any]) -> list[str]:
    lists = []
    for heading, field in (
        ("Not measured", "problem"),
        ("Of the compiled program cannot be read", "unread"),
        ("Not traced", "untraced"),
    ):
        if lines := [f"- {name}: {piece[field]}" for name, piece in found.items() if field in piece]:
            lists.append(f"{heading}:\n\n" + "\n".join(lines))
    return lists


def _figures(rows: Iterable[Mapping[str, Any]], without_device: Mapping[str, Any], target: str) -> str:
    """Returns the table of the stage `compiled`. Rows without figures of their own have only those of a target."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + " --- |" * 4 + " ---: |" * (len(HEADINGS) - 4)]
    for row in rows:
        # Without a device, all variants of a model are compiled alike.
        spec = {**row, "model": VARIANTS.get(row["model"], (row["model"],))[0], "target": target, "program": "train"}
        # A program that was made small for a trial is not compared.
        computed = without_device.get(name_of(spec), {}) if target and "overrides" not in row else {}
        lines.append("| " + " | ".join(_cells(row, {} if "problem" in computed else computed)) + " |")
    return "\n".join(lines)


def _traces(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the slowest kernels of each program, from its trace."""
    sections = []
    for row in rows:
        if trace := row.get("trace"):
            products = f"matrix products {1e3 * trace['product_seconds']:.2f} ms"
            lines = [
                f"{row['model']} {row['replicas']} x {row['batch']} {row['precision']}: kernels run for "
                f"{1e3 * trace['busy_seconds']:.2f} ms of a step's {1e3 * trace['span_seconds']:.2f} ms, {products}.",
                "",
                "| a step (ms) | runs a step | kernel | operation |",
                "| ---: | ---: | --- | --- |",
            ]
            for kernel in trace["slowest"][:SLOWEST]:
                name = kernel["name"].replace("|", "\\|")
                lines.append(f"| {1e3 * kernel['seconds']:.3f} | {kernel['count']:.1f} | `{name}` | {kernel['op']} |")
            sections.append("\n".join(lines))
    return ["#### Slowest kernels", *sections] if sections else []


def _cells(row: Mapping[str, Any], computed: Mapping[str, Any]) -> list[str]:
    def pair(key: str, scale: float, style: str) -> str:
        value, bracket = (format(of[key] / scale, style) if of.get(key) is not None else "" for of in (row, computed))
        return f"{value} ({bracket})".strip() if bracket else value

    used = ", ".join(row.get("products", ()))
    measured, least = row.get("seconds"), row.get("least_seconds")
    return [
        row["model"],
        f"{row['replicas']} x {row['batch']}",
        row["precision"],
        used,
        pair("temporaries", 1e9, ".2f"),
        pair("in_use", 1e9, ".2f"),
        pair("moved", 1e9, ".1f"),
        pair("kernels", 1, ".0f"),
        pair("least_seconds", 1e-3, ".2f"),
        f"{1e3 * measured:.2f}" if measured else NOT_RUN if computed else "not run",
        f"{measured / least:.2f}" if measured and least else "",
        f"{1e3 * row['seconds_in_a_row']:.2f}" if measured else "",
        f"{row['loss']:.5f}" if "loss" in row else "",
        f"{row['compile_seconds']:.0f}" if measured else pair("compile_seconds", 1, ".0f"),
        short_commit(row.get("commit"), reports.DIGITS),
    ]


def tables_of(results: Path) -> str:
    """Returns the tables of all results in a folder."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(results.glob("*/*.json")):
        kept = reports.read_result(file)
        if "stage" in kept:
            found.setdefault(file.parent.name, {})[kept["stage"]] = kept
    file = WITHOUT_DEVICE / "figures.json"
    return markdown(found, read_json(file) if file.exists() else {})


def write(results: Path) -> None:
    """Writes the tables of a folder of results."""
    write_atomically(results / "README.md", tables_of(results))
