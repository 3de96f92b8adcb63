"""Memory of a training step: the estimate of a plan, the compiled program's own account, and the actual use."""

from collections.abc import Mapping
from typing import Any

from benchmarks import fresh_process, steps
from benchmarks.item import Column, Item, Settings
from jaxmatch.sweep import memory

# (replicas, batch, length): one of the three grows at a time.
BASE = (1, 64, 24)
GROWTH = {
    "runs": [(2, 64, 24), (4, 64, 24), (10, 64, 24)],
    "batch": [(1, 128, 24), (1, 512, 24)],
    "length": [(1, 64, 48), (1, 64, 96)],
}
# Additional points on an accelerator, where a program of many runs does not take minutes.
GROWTH_ON_AN_ACCELERATOR = {"runs": [(32, 64, 24)], "batch": [(1, 2048, 24)], "length": []}
WORDS, DIMENSIONS, CLASSES = 20_000, 300, 3
GOAL = 0.2
# Large blocks of memory go back to the system as soon as they are freed, so that its figures are meaningful. An
# accelerator's memory is allocated as needed, so that two processes can share it.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns rows for a growing number of runs, of pairs in a batch, and of tokens in a pair, and notes."""
    name, small = ("re2_embedded_inference", steps.SMALL) if settings.quick else ("re2_snli", {})
    config = settings.config(name, **small)

    def measured(point: tuple[int, int, int]) -> dict[str, Any]:
        shape = dict(zip(("replicas", "batch", "length"), point, strict=True))
        more = {"words": WORDS, "dimensions": DIMENSIONS, "classes": CLASSES}
        request = {"model": config.model.to_dict(), "optimizer": config.optimizer.to_dict(), **shape, **more}
        try:
            return {
                **shape,
                **row_of(fresh_process.run("benchmarks.memory_worker", request, ENVIRONMENT), shape["replicas"]),
            }
        except RuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return {**shape, "remark": "out of memory"}

    rows = [{"grows": "", **measured(BASE)}]
    if not settings.quick:
        device = rows[0]["device"]
        for what, points in GROWTH.items():
            points = points + (GROWTH_ON_AN_ACCELERATOR[what] if device != "cpu" else [])
            rows += [{"grows": what, **measured(point)} for point in points]
    return rows, _notes(rows)


def row_of(answer: Mapping[str, Any], replicas: int) -> dict[str, Any]:
    """Returns a row, in MiB, from the worker's answer in bytes."""
    needs = memory.Needs(**answer["needs"])
    sizes = {
        name: None if answer[name] is None else answer[name] / 2**20
        for name in ("compiled", "measured", "shared", "limit")
    }
    row = {**sizes, "device": answer["device"], "estimate": needs.of(replicas) / 2**20, "remark": ""}
    row["planned"] = needs.within(memory.constants_of(answer["device"]).memory_fraction * answer["limit"])
    most = sizes["compiled"] if sizes["measured"] is None else sizes["measured"]
    if most:
        row |= {"replica": most / replicas, "ratio": most / row["estimate"]}
        row["fit"] = needs.within((answer["limit"] - answer["shared"]) / row["ratio"])
    return row


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    ratios = [row["ratio"] for row in rows if row.get("ratio")]
    to_use = memory.constants_of(rows[0]["device"]).memory_fraction
    notes = [
        "The released SNLI setting (3 blocks, hidden 150, 3 classes) on random pairs of equal length; each row in a "
        "fresh process.",
        "Used: on an accelerator the peak its allocator reports, on a CPU the growth of the process during a step plus "
        "the arrays that stay; compiled: what the compiled step's own account says. Without the data and word vectors, "
        "which all runs share.",
        f"Planned: the largest cohort that a plan trains at once; it fills {to_use:.0%} of the memory by its estimate. "
        "Would fit: if all needed as much more or less than estimated as was measured, with nothing kept free.",
    ]
    if ratios:
        notes.insert(
            0, f"Used, of what the plan estimates: {min(ratios):.2f} to {max(ratios):.2f}; goal: within {GOAL:.0%}."
        )
    return notes


def figure(rows: list[dict[str, Any]]) -> Any:
    """Draws estimated and measured memory, with a panel each for a growing number of runs, batch and length."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(9, 3), layout="constrained")
    panels = (("runs", "replicas", "runs"), ("batch", "batch", "pairs a batch"), ("length", "length", "tokens a pair"))
    for axes, (grows, key, label) in zip(drawn.subplots(1, len(panels)), panels, strict=True):
        points = sorted((row for row in rows if row["grows"] in ("", grows)), key=lambda row: row[key])
        for name, marker in (("measured", "o"), ("compiled", "s"), ("estimate", "")):
            known = [(row[key], row[name] / 1024) for row in points if row.get(name)]
            if known:
                axes.plot(
                    *zip(*known, strict=True),
                    marker=marker,
                    markersize=4,
                    linestyle="-" if marker else "--",
                    label=name,
                )
        axes.set(xlabel=label, ylabel="GiB", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False)
    return drawn


ITEM = Item(
    title="Memory of a training step, the released SNLI setting (3 blocks, hidden 150).",
    needs=(),
    columns=(
        Column("grows", "grows"),
        Column("replicas", "runs", "d"),
        Column("batch", "batch", "d"),
        Column("length", "length", "d"),
        Column("estimate", "estimate, MiB", ",.0f"),
        Column("compiled", "compiled, MiB", ",.0f"),
        Column("measured", "used, MiB", ",.0f"),
        Column("ratio", "used / estimate", ".2f"),
        Column("replica", "a run, MiB", ",.0f"),
        Column("planned", "planned at once", ",d"),
        Column("fit", "would fit", ",d"),
        Column("remark", "remark"),
    ),
    run=run,
    figure=figure,
)
