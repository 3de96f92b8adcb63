"""A whole sweep: where the time goes between the command and the table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import fresh_process
from benchmarks.accelerators.__main__ import problem_of
from benchmarks.item import CONFIGS, Column, Item, Settings

WORKER = "benchmarks.sweep_worker"
SWEEPS = CONFIGS.parent / "sweeps"
PARTS = ("import", "data", "plan", "compile", "train", "evaluate", "checkpoint", "models", "tables", "other")
GOAL_SHARE = 0.10
# The size of SNLI as released. The given text may be only a part of it, and the number of evaluations depends on it.
SNLI_TRAIN_PAIRS = 549_367
QUICK = {
    "data.maximum_length": 6,
    "training.epochs": 1,
    "training.batch_size": 512,
    "training.maximum_buckets": 1,
    "model.hidden_size": 4,
    "model.encoder_layers": 1,
    "model.alignment": "identity",
    "model.fusion": "simple",
}


def launches(quick: bool) -> dict[str, dict[str, Any]]:
    """Returns name -> what to launch: a sweep file and its overrides, and optionally seeds and the axes of the grid."""
    quickstart = {"file": str(SWEEPS / "quickstart.py"), "overrides": {}}
    if quick:
        return {"quickstart": {**quickstart, "overrides": QUICK, "grid": {"model.blocks": "1"}, "seeds": 1}}
    grid = {"model.blocks": "1,2,3", "model.encoder_layers": "1,2,3", "optimizer.learning_rate": "0.001,0.003"}
    # The runs of a grid are shorter than those of a paper. Here they are so short that the time besides training shows.
    nine = {"file": str(SWEEPS / "grid.py"), "overrides": {"training.epochs": 4}, "grid": grid, "seeds": 2}
    return {"quickstart": quickstart, "9 programs": nine}


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    rows, notes = [], []
    for name, request in launches(settings.quick).items():
        folder = settings.scratch / name.replace(" ", "-")
        for number, launch in enumerate(("first launch", "again, programs kept")):
            rows.append(launch_row(f"{name}, {launch}", _launched(request, folder, folder / f"workdir{number}")))
        rows.append(launch_row(f"{name}, all on record", _launched(request, folder, folder / "workdir0")))
    if settings.data_directory and settings.vectors and not settings.quick:
        try:
            row, note = _snli(settings)
            rows.append(row)
        except fresh_process.ProcessFailed as error:  # the text may be missing, and the launches took long
            note = f"SNLI text: not measured ({problem_of(str(error))})"
        notes.append(note)
    notes += [
        "A launch is a fresh process, import and all; what is compiled is kept in a folder of the launches of one "
        "name. Compiled: requests to the compiler that the kept programs did not answer, of training, evaluation and "
        "small helpers together.",
        "Share: evaluation and checkpoints of training. Writing the models of all runs (models) is part of neither.",
    ]
    return rows, notes


def _launched(request: Mapping[str, Any], folder: Path, workdir: Path) -> dict[str, Any]:
    overrides = {**request["overrides"], "execution.cache_directory": str(folder / "cache")}
    # Compiled programs are stored in the folder that the launcher chooses, because an empty name does not set a folder.
    environment = {"JAX_ENABLE_COMPILATION_CACHE": "1", "JAX_COMPILATION_CACHE_DIR": ""}
    return fresh_process.run(WORKER, {**request, "overrides": overrides, "workdir": str(workdir)}, environment)


def launch_row(what: str, done: Mapping[str, Any]) -> dict[str, Any]:
    parts = {part: done["parts"].get(part, 0.0) for part in PARTS}
    parts["import"] = done["import_seconds"]
    row = {"what": what, "runs": done["runs"], "seconds": done["process_seconds"], "cpu": done["cpu_seconds"], **parts}
    row["programs"] = f"{done['executables']} of {done['shapes']}, {done['signatures']} signatures"
    row["compiled"] = done["compiled"]
    return {**row, **_share(parts["evaluate"] + parts["checkpoint"], parts["train"])}


def _share(other: float, training: float) -> dict[str, Any]:
    """Returns other time as a share of training time, with its verdict; both are empty if nothing was trained."""
    if not training:
        return {"share": "", "met": ""}
    return {"share": other / training, "met": "yes" if other / training <= GOAL_SHARE else "no"}


def epoch_share(measured: Mapping[str, Any], train_pairs: int) -> dict[str, float]:
    """Estimates the seconds of an epoch of `train_pairs` pairs, from some steps, an evaluation and a checkpoint that
    were measured.

    Returns:
      "train", "evaluate", "checkpoint": the seconds of each part.
    """
    train = measured["step_seconds"] * train_pairs / measured["pairs"]
    evaluations = train_pairs / measured["evaluate_every"] if measured["evaluate_every"] else 1.0
    saves = train / measured["checkpoint_every"]
    return {
        "train": train,
        "evaluate": evaluations * measured["evaluate_seconds"],
        "checkpoint": saves * measured["checkpoint_seconds"],
    }


def _snli(settings: Settings) -> tuple[dict[str, Any], str]:
    places = {"data.directory": settings.data_directory, "data.vectors": settings.vectors}
    overrides = {**places, "execution.cache_directory": str(settings.scratch / "snli-cache")}
    request = {"file": str(CONFIGS / "re2_snli.py"), "overrides": overrides, "replicas": 1, "steps": 24}
    done = fresh_process.run(WORKER, {**request, "workdir": str(settings.scratch / "snli-checkpoints")})
    parts = epoch_share(done, SNLI_TRAIN_PAIRS)
    row = {
        "what": "re2_snli, an epoch of the whole set, estimated",
        "runs": 1,
        "programs": "",
        "compiled": "",
        "cpu": "",
    }
    row |= {**dict.fromkeys(PARTS, ""), **parts, "seconds": sum(parts.values()), "compile": done["compile_seconds"]}
    note = (
        f"re2_snli: {request['steps']} steps of {done['pairs']:,} pairs took {done['step_seconds']:.1f} s, scoring "
        f"{done['dev']:,} dev pairs {done['evaluate_seconds']:.1f} s, a checkpoint {done['checkpoint_seconds']:.2f} s; "
        f"its epoch of {SNLI_TRAIN_PAIRS:,} pairs, dev scored once, a checkpoint every {done['checkpoint_every']:.0f} "
        "s, follows from these."
    )
    return {**row, **_share(parts["evaluate"] + parts["checkpoint"], parts["train"])}, note


ITEM = Item(
    title="A whole sweep: seconds from the command to the table, by what they went into.",
    needs=(),
    columns=(
        Column("what", "launch"),
        Column("runs", "runs", "d"),
        Column("seconds", "seconds", ".1f"),
        Column("cpu", "CPU seconds", ".1f"),
        *(Column(part, part, ".2f") for part in PARTS),
        Column("share", f"share, at most {GOAL_SHARE:.2f}", ".3f"),
        Column("met", "met"),
        Column("programs", "training programs of shapes"),
        Column("compiled", "compiled", "d"),
    ),
    run=run,
)
