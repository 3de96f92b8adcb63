"""The tables of what was compiled."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.accelerators.targets import TARGETS
from benchmarks.accelerators.worker import CONFIGS, LENGTH
from jaxmatch.data.characters import LONGEST_WORD
from jaxmatch.files import write_atomically

INTRODUCTION = """# Programs compiled for accelerators

Compiled, not run, by `make accelerators`. Temporaries and arguments are what XLA's `memory_analysis()` says. Moved: on
a TPU the compiler's own count; on a GPU operands and results of all kernels, without the workspaces of cuBLAS, an
operand counted at most 8 times the result. The least time of a step is the larger of moved bytes by bandwidth and
operations by peak, both as published, and on a GPU 4 microseconds a kernel on top: a bound. Rows have 40 tokens, words
300 dimensions; a run's settings are those of `configs/*_snli.py`. Models that take characters encode those of
896 words for 64 pairs and of 3,072 for 512; until commit cfd09f5 they encoded those of each token. "A time step" has
the kernels of one time step of an LSTM, in training forward and backward together.
"""
PROGRAMS = "train", "evaluate"
# The LSTMs of a model, one after the other: layers over a row of tokens, and over a word of 16 characters.
TIME_STEPS = {"esan": LENGTH, "csran": 5 * LENGTH + LONGEST_WORD, "cafe": LENGTH + LONGEST_WORD}
HEADINGS = (
    "model",
    "program",
    "replicas",
    "batch",
    "precision",
    "products in",
    "temporaries (GB)",
    "arguments (GB)",
    "moved (GB)",
    "TFLOP",
    "kernels",
    "of them in loops",
    "a time step",
    "collectives",
    "worst padding",
    "compiled in (s)",
    "least time (ms)",
    "commit",
)


def markdown(rows: Iterable[Mapping[str, Any]], programs: Mapping[str, int]) -> str:
    """All figures, a section a device; what does not compile stands below with the reason.

    Arguments:
      rows: the figures.
      programs: target -> how many there are.
    """
    rows = list(rows)
    sections = [INTRODUCTION.strip()]
    for name, target in TARGETS.items():
        own = sorted((row for row in rows if row["target"] == name), key=_place)
        if not own:
            continue
        sections.append(f"## {name}: {target.memory / 1e9:.0f} GB, {target.bandwidth / 1e12:.2f} TB/s")
        said = sorted(
            {
                ", ".join(f"{name} {version}" for name, version in row["versions"].items())
                for row in own
                if "versions" in row
            }
        )
        sections.append("; ".join(said))
        sides = [" --- |"] * 6 + [" ---: |"] * (len(HEADINGS) - 7) + [" --- |"]
        lines = [" | ".join(["", *HEADINGS, ""]).strip(), "|" + "".join(sides)]
        lines += [_line(row) for row in own if "problem" not in row]
        sections.append("\n".join(lines))
        if problems := [
            f"- {row['model']} {row['program']}, {row['replicas']} x {row['batch']}, {row['precision']}: "
            f"{row['problem']}"
            for row in own
            if "problem" in row
        ]:
            sections.append("Does not compile:\n\n" + "\n".join(problems))
        if beyond := [
            f"{row['model']} {row['program']}, {row['replicas']} x {row['batch']}, {row['precision']}"
            for row in own
            if row.get("temporaries", 0) + row.get("arguments", 0) > target.memory
        ]:
            sections.append("Compiles, and does not fit the memory of the device: " + "; ".join(beyond) + ".")
        if len(own) < programs[name]:
            sections.append(f"{len(own)} of {programs[name]} programs; the others were not tried yet.")
    return "\n\n".join(sections) + "\n"


def _place(row: Mapping[str, Any]) -> tuple:
    return (
        list(CONFIGS).index(row["model"]),
        PROGRAMS.index(row["program"]),
        row["batch"],
        row["replicas"],
        row["precision"] != "float32",
    )


def _line(row: Mapping[str, Any]) -> str:
    padding = f"{row['worst_padding']:.1f} times" if "worst_padding" in row else ""
    cells = (
        row["model"],
        row["program"],
        row["replicas"],
        row["batch"],
        row["precision"],
        ", ".join(row.get("products", ())),
        f"{row['temporaries'] / 1e9:.2f}",
        f"{row['arguments'] / 1e9:.2f}",
        f"{row['moved'] / 1e9:.1f}",
        f"{row['operations'] / 1e12:.3g}",
        row["kernels"],
        row["kernels_in_loops"],
        _a_time_step(row),
        row["collectives"],
        padding,
        f"{row['compile_seconds']:.0f}",
        f"{1e3 * row['least_seconds']:.2f}",
        row["commit"][:7],
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _a_time_step(row: Mapping[str, Any]) -> str:
    """Kernels of an LSTM, the mean of all. A TPU's loops do not say how often they turn."""
    if row["model"] not in TIME_STEPS or TARGETS[row["target"]].platform != "cuda":
        return ""
    return f"{row['kernels_in_loops'] / TIME_STEPS[row['model']]:.3g}"


def write(file: Path, rows: Iterable[Mapping[str, Any]], programs: Mapping[str, int]) -> None:
    write_atomically(file, markdown(rows, programs))
