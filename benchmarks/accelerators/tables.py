"""The tables of the programs that were compiled."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.accelerators.targets import TARGETS, Target
from benchmarks.accelerators.worker import CONFIGS, LENGTH
from benchmarks.reports import DIGITS
from jaxmatch.data.text import LONGEST_WORD
from jaxmatch.reporting.records import short_commit

INTRODUCTION = """# Programs compiled for accelerators

`make accelerators` compiles these programs; it does not run them. Rows have 40 tokens, and word vectors have 300
dimensions. A run has the settings of `configs/*_snli.py`. Models with characters encode the characters of 896 words for
64 pairs and of 3,072 words for 512 pairs. Each program is compiled for one device, except those of the last table.

- temporaries, arguments: from XLA's `memory_analysis()`.
- moved: the bytes that a program reads and writes. On a GPU, these are the operands and results of all kernels, without
  the workspaces of cuBLAS. A kernel in a loop counts once for each iteration, and an operand counts as at most 8 times
  the result. On a TPU, the number is from XLA's `cost_analysis()`, which counts the body of a loop once.
- TFLOP: from `cost_analysis()`. Of the loop of an LSTM, it counts one time step.
- kernels, of them in loops: on a GPU, a kernel in a loop counts once for each iteration. On a TPU, it counts once,
  because the program does not state the number of iterations.
- a time step: the kernels of one time step of an LSTM. In training, these are the kernels of the forward and the
  backward pass.
- worst padding: how many times its own size the most padded array takes on a TPU. Only arrays above a megabyte count.
- commit: the version of jaxmatch that made the program. A program of today's version may differ.
- least time: a lower bound for the time of a step. It is the larger of two quotients: moved bytes by bandwidth, and
  operations by peak performance, both as published. On a GPU, 4 microseconds are added for each kernel. The sign "≥"
  marks programs with LSTMs on a TPU: their bound counts one iteration of each loop, so the true bound is higher.
"""
PROGRAMS = "train", "evaluate"
PROGRAMS_ON_SEVERAL = "train", "train_many", "evaluate"
ON_SEVERAL = """## Several devices

These programs are compiled for the four devices of one host, by the classes that compile them in a training. 40 runs
with batches of 64 are spread over the devices, ten on each, in float32. `train_many` makes many steps in one dispatch,
with rows of 20 and 40 tokens. Collectives are the operations that devices do together; there must be none. The other
figures are those of each device. `tests/test_devices.py` trains on eight simulated devices.
"""
# The time steps of a model's LSTMs, one after the other: layers over a row of tokens, and over a word of 16 characters.
TIME_STEPS = {"esan": LENGTH, "csran": 5 * LENGTH + LONGEST_WORD, "cafe": LENGTH + LONGEST_WORD}
# The message in which the compiler of a TPU says how much memory a program may have, in GiB.
AVAILABLE_HBM = re.compile(r"exceeds available HBM \(([\d.]+)G\)")
HEADINGS_ON_SEVERAL = (
    "device",
    "model",
    "program",
    "collectives",
    "temporaries (GB)",
    "moved (GB)",
    "kernels",
    "commit",
)
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
    "worst padding",
    "compiled in (s)",
    "least time (ms)",
    "commit",
)


def markdown(rows: Iterable[Mapping[str, Any]], programs: Mapping[str, int], programs_on_several: int) -> str:
    """Returns all figures as Markdown, with one section for each device. Programs that do not compile are listed below
    the table, with the reason.

    Arguments:
      rows: the figures.
      programs: target -> the number of its programs for one device.
      programs_on_several: the number of programs for several devices, of all targets.
    """
    on_several = [row for row in rows if "devices" in row]
    rows = [row for row in rows if "devices" not in row]
    sections = [INTRODUCTION.strip()]
    for name, target in TARGETS.items():
        own = sorted((row for row in rows if row["target"] == name), key=sort_key)
        if not own:
            continue
        sections += [f"## {name}: {target.memory / 1e9:.0f} GB, {target.bandwidth / 1e12:.2f} TB/s", _versions(own)]
        sides = [" --- |"] * 6 + [" ---: |"] * (len(HEADINGS) - 7) + [" --- |"]
        lines = [" | ".join(["", *HEADINGS, ""]).strip(), "|" + "".join(sides)]
        lines += [_line(row) for row in own if "problem" not in row]
        sections.append("\n".join(lines))
        collectives = sum(row.get("collectives", 0) for row in own)
        sections.append(f"Collectives (operations that devices do together): {collectives or 'none'}.")
        if problems := [f"- {title(row)}: {row['problem']}" for row in own if "problem" in row]:
            sections.append("Does not compile:\n\n" + "\n".join(problems))
        if beyond := beyond_memory(own):
            sections.append(_does_not_fit(beyond, target, hbm_gib(own)))
        if len(own) < programs[name]:
            sections.append(_not_tried(len(own), programs[name]))
    return "\n\n".join([*sections, *_on_several(on_several, programs_on_several)]) + "\n"


def _on_several(rows: Sequence[Mapping[str, Any]], number: int) -> list[str]:
    """Returns the section of the programs for several devices, or nothing if there are none."""
    if not rows:
        return []
    lines = [" | ".join(["", *HEADINGS_ON_SEVERAL, ""]).strip(), "|" + " --- |" * 3 + " ---: |" * 4 + " --- |"]
    targets, models = list(TARGETS), list(CONFIGS)
    for row in sorted(
        rows,
        key=lambda row: (
            targets.index(row["target"]),
            models.index(row["model"]),
            PROGRAMS_ON_SEVERAL.index(row["program"]),
        ),
    ):
        figures = ["does not compile", "", "", ""]
        if "problem" not in row:
            figures = [
                row["collectives"],
                f"{row['temporaries'] / 1e9:.2f}",
                f"{row['moved'] / 1e9:.1f}",
                row["kernels"],
            ]
        cells = row["target"], row["model"], row["program"], *figures, short_commit(row["commit"], DIGITS)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    sections = [ON_SEVERAL.strip(), _versions(rows), "\n".join(lines)]
    return sections + [_not_tried(len(rows), number)] * (len(rows) < number)


def _not_tried(tried: int, number: int) -> str:
    return f"{tried} of {number} programs; the others were not tried yet."


def needs(row: Mapping[str, Any]) -> int:
    """Returns the bytes of temporaries and arguments, or 0 for a program that does not compile."""
    return row.get("temporaries", 0) + row.get("arguments", 0)


def beyond_memory(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the rows of programs that compile but need more than the published memory of their device."""
    return [row for row in rows if needs(row) > TARGETS[row["target"]].memory]


def hbm_gib(rows: Iterable[Mapping[str, Any]]) -> float:
    """Returns the memory in GiB that the compiler of a target says there is, or 0 if it has rejected no program."""
    found = (AVAILABLE_HBM.search(row.get("problem", "")) for row in rows)
    return max((float(match.group(1)) for match in found if match), default=0.0)


def _versions(rows: Iterable[Mapping[str, Any]]) -> str:
    texts = {", ".join(f"{name} {version}" for name, version in row.get("versions", {}).items()) for row in rows}
    return "; ".join(sorted(filter(None, texts)))


def _does_not_fit(rows: Sequence[Mapping[str, Any]], target: Target, gibibytes: float) -> str:
    """Describes the programs that compile but need too much memory, and which of them XLA would still run."""
    inside = [row for row in rows if needs(row) <= gibibytes * 2**30]
    found = (
        f"Compiles, and does not fit the memory of the device, {target.memory / 1e9:.0f} GB, with temporaries and "
        f"arguments: {'; '.join(map(title, rows))}."
    )
    if inside:
        found += f" Within the {gibibytes:g} GiB that XLA has: {'; '.join(map(title, inside))}."
    return found


def title(row: Mapping[str, Any]) -> str:
    """Returns a program's name in text."""
    return f"{row['model']} {row['program']}, {row['replicas']} x {row['batch']}, {row['precision']}"


def sort_key(row: Mapping[str, Any]) -> tuple:
    """Returns the place of a program among those of its device."""
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
        _kernels_per_time_step(row),
        padding,
        f"{row['compile_seconds']:.0f}",
        f"{'≥ ' * counts_a_loop_once(row)}{1e3 * row['least_seconds']:.2f}",
        short_commit(row["commit"], DIGITS),
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def counts_a_loop_once(row: Mapping[str, Any]) -> bool:
    """Returns whether the bytes and kernels of an LSTM are those of one time step, because a TPU's program does
    not state the number of iterations of its loops.
    """
    return row["model"] in TIME_STEPS and TARGETS[row["target"]].platform == "tpu"


def _kernels_per_time_step(row: Mapping[str, Any]) -> str:
    """Returns the kernels in a time step of an LSTM, averaged over all time steps."""
    if row["model"] not in TIME_STEPS or counts_a_loop_once(row):
        return ""
    return f"{row['kernels_in_loops'] / TIME_STEPS[row['model']]:.3g}"
