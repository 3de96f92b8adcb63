"""The table of the stage `dispatched`: training steps, one and many in a dispatch."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.reports import DIGITS
from jaxmatch.reporting.records import short_commit

WITH_TRITON = "XLA's Triton products"


def sections(pieces: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the table of the measured pieces, and notes on it."""
    headings = (
        "runs x batch",
        "precision",
        "compiled with",
        "commit",
        "row (tokens)",
        "steps a dispatch",
        "a step (ms)",
        "kernels run (ms)",
        "first steps (s)",
    )
    lines = ["| " + " | ".join(headings) + " |", "| --- | --- | --- | --- |" + " ---: |" * 5]
    for piece in pieces:
        lengths = " and ".join(map(str, piece["lengths"]))
        options, at = _compiled_with(piece), short_commit(piece.get("commit"), DIGITS)
        of_piece = f"| {piece['replicas']} x {piece['batch']} | {piece['precision']} | {options} | {at} | {lengths} |"
        for row in piece["times"]:
            busy = f"{1e3 * row['busy_seconds']:.3f}" if row.get("busy_seconds") else ""
            times = f"{1e3 * row['seconds']:.3f} | {busy} | {row['compile_seconds']:.1f}"
            lines.append(f"{of_piece} {row['count']} | {times} |")
    found = ["\n".join(lines)]
    if any(_compiled_with(piece) == WITH_TRITON for piece in pieces):
        found.append(
            f'"{WITH_TRITON}": measured before commit efe718d, from which on training leaves these products out, and '
            "before 0e7e81f, from which on it fills rows up."
        )
    return found


def _compiled_with(piece: Mapping[str, Any]) -> str:
    """Returns the compiler options of a piece: those of `XLA_FLAGS`, and those of training."""
    options = piece.get("compiler_options", {})
    parts = [piece.get("xla_flags", ""), *(f"{name}={value}" for name, value in options.items())]
    if "compiler_options" not in piece and "triton_gemm" not in parts[0]:
        parts.append(WITH_TRITON)  # results from before training had options
    return " ".join(filter(None, parts))
