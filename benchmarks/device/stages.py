"""The measurements on a device, the most informative first."""

import dataclasses
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.device import pieces, sweeps
from benchmarks.device.budget import Budget, Stage, say
from benchmarks.item import Settings
from benchmarks.items.replicas import BATCHES, REPLICAS
from benchmarks.reports import DIGITS
from jaxmatch.errors import InputError
from jaxmatch.reporting import figures
from jaxmatch.reporting.figures import scores_against
from jaxmatch.reporting.records import read_sweep_folder, short_commit

CASE = ("model", "replicas", "batch", "precision")
SIZES = ((512, "float32"), (64, "bfloat16"), (512, "bfloat16"), (64, "float32"))
# The cases, with these fields. Cases with goals come first, then cases that may explain them.
CASES = (
    *(("re2", 10, batch, precision) for batch, precision in SIZES),
    *(("re2-triton", 10, batch, precision) for batch, precision in SIZES),
    *((model, 10, 64, "float32") for model in ("csran", "esan", "cafe")),
    *(("re2", 1, batch, precision) for batch in (64, 512) for precision in ("float32", "bfloat16")),
    *((model, 10, 64, "bfloat16") for model in ("csran", "esan", "cafe")),
    *(("re2-untuned", 10, batch, precision) for batch, precision in SIZES),
)
# Variants whose options XLA has only for GPUs.
GPU_ONLY_SUFFIXES = ("-triton", "-untuned")
# (replicas, batch, precision) of the steps that are dispatched one by one and many at a time.
DISPATCHED = ((10, 64, "float32"), (1, 64, "float32"), (10, 64, "bfloat16"))
# (batch, replicas, precision): the points with a goal, and the points that they are compared with.
SERIES_WITH_GOALS = (
    (512, (1, 10), "float32"),
    (64, (1, 10), "float32"),
    (128, (1, 10), "float32"),
    (512, (1, 10), "bfloat16"),
)
OTHER_SERIES = tuple(
    (batch, (1, count), "float32") for count in reversed(REPLICAS) if count not in (1, 10) for batch in BATCHES
)
# Stage -> the series that it measures.
SERIES: Mapping[str, tuple] = {"replicas": SERIES_WITH_GOALS, "more-replicas": OTHER_SERIES}
# Changes that make a program compile in seconds on a CPU. Its times mean nothing.
SMALL_RE2 = {"model.blocks": 1, "model.encoder_layers": 1, "model.hidden_size": 8}
SMALL_CSRAN = {
    "model.hidden_size": 4,
    "model.aggregation_layers": 1,
    "model.head_size": 8,
    "training.epochs": 1,
    "training.batch_size": 512,
    "training.maximum_buckets": 1,
}
# Each depth is a program of its own and trains little, so most of its time goes into compiling.
FEW_LENGTHS = "--config.training.maximum_buckets=2"
# With the TensorFlow code's 1,280 pairs, most of the time would go into scoring.
SCORED_SELDOM = "--config.training.evaluate_every_samples=5120"
# The expected seconds of a piece while none has been measured, including the start of a process and compilation on a
# device.
SECONDS_A_CASE, SECONDS_A_SERIES = 90.0, 120.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the stages of this command are measured with.

    Attributes:
      settings: the data, vectors and peer.
      workdir: the folder that holds the folders of the sweeps.
      budget: the time.
      platform: the platform of the device, as JAX calls it.
    """

    settings: Settings
    workdir: Path
    budget: Budget
    platform: str

    @property
    def quick(self) -> bool:
        return self.settings.quick


def name_of(case: tuple[str, int, int, str]) -> str:
    """Returns the name of the result of one of `CASES`."""
    return "{} {} x {} {}".format(*case)


def name_of_steps(steps: tuple[int, int, str]) -> str:
    """Returns the name of the result of one of `DISPATCHED`."""
    return "{} x {} {}".format(*steps)


def name_of_series(series: tuple[int, tuple[int, ...], str]) -> str:
    """Returns the name of the result of a series in `SERIES`."""
    batch, counts, precision = series
    return f"{' and '.join(map(str, counts))} x {batch} {precision}"


def compiled(plan: Plan, stage: Stage) -> None:
    """Compiles and runs programs, and measures their memory, bytes and time. The values computed without a device stand
    beside them.
    """
    specs = {}
    cases = [case for case in CASES if plan.platform == "gpu" or not case[0].endswith(GPU_ONLY_SUFFIXES)]
    for case in (("re2", 2, 8, "float32"),) if plan.quick else cases:
        spec = dict(zip(CASE, case, strict=True)) | ({"overrides": SMALL_RE2, "pairs": 512} if plan.quick else {})
        specs[name_of(case)] = spec
    pieces.measure(stage, plan.budget, "benchmarks.device.case", specs, 20.0 if plan.quick else SECONDS_A_CASE)


def dispatched(plan: Plan, stage: Stage) -> None:
    """Times training steps of RE2 on rows of two lengths, with one step and with many steps in a dispatch."""
    specs = {}
    for steps in ((2, 8, "float32"),) if plan.quick else DISPATCHED:
        spec = dict(zip(CASE[1:], steps, strict=True))
        specs[name_of_steps(steps)] = spec | ({"overrides": SMALL_RE2} if plan.quick else {})
    pieces.measure(stage, plan.budget, "benchmarks.device.dispatches", specs, 20.0 if plan.quick else SECONDS_A_CASE)


def replicas(plan: Plan, stage: Stage) -> None:
    """Runs the benchmark `replicas` at the points that have goals: one run and ten runs."""
    _many_runs(plan, stage, ((16, (1, 2), "float32"),) if plan.quick else SERIES["replicas"])


def more_replicas(plan: Plan, stage: Stage) -> None:
    """Runs the benchmark `replicas` at its other points."""
    _many_runs(plan, stage, SERIES["more-replicas"])


def _many_runs(plan: Plan, stage: Stage, series: Any) -> None:
    names = [field.name for field in dataclasses.fields(Settings) if field.name != "scratch"]
    settings = {name: getattr(plan.settings, name) for name in names}
    specs = {}
    for each in series:
        batch, counts, precision = each
        changes = {} if precision == "float32" else {"model__precision": precision}
        specs[name_of_series(each)] = {"settings": settings, "batch": batch, "replicas": counts, "changes": changes}
    # The next pieces need the programs that a piece compiled.
    kept = {"JAX_COMPILATION_CACHE_DIR": str(plan.workdir / "cache" / "programs")}
    seconds = 20.0 if plan.quick else SECONDS_A_SERIES
    # What was measured without the peer is measured again once there is one, but not the reverse.
    inputs = {"peer": True} if plan.settings.peer else {}
    pieces.measure(stage, plan.budget, "benchmarks.device.many_runs", specs, seconds, kept, inputs)


def wikiqa(plan: Plan, stage: Stage) -> None:
    """Trains ten seeds of RE2 on WikiQA (Table 4 of its paper), in the setting of the TensorFlow code, but scored every
    5,120 pairs instead of every 1,280.
    """
    size = ["--smoke"] if plan.quick else ["--seeds", "10", SCORED_SELDOM, *_data(plan)]
    _sweep(plan, stage, ["sweeps/re2_main.py", "--dataset", "wikiqa", "--setting", "released_tensorflow", *size])


def depth(plan: Plan, stage: Stage) -> None:
    """Trains CSRAN at several depths on SciTail (Figure 2 of its paper), or on the embedded inference set if SciTail's
    files are missing.
    """
    kept = stage.found()
    missing = missing_for_sweeps(plan.settings, "SciTailV1.1")
    if missing and kept.get("sweep") == "csran_depth" and stage.is_current(kept):
        return say(f"{stage.name}: the results on SciTail stay: {missing}")
    if not plan.quick and not missing:
        words = ["sweeps/csran_depth.py", "--dataset", "scitail", "--seeds", "10", FEW_LENGTHS, *_data(plan)]
        workdir = _sweep(plan, stage, words)
    else:
        changes = [f"--config.{name}={value}" for name, value in SMALL_CSRAN.items()]
        small = ["--grid.model.stacked_layers=1", "--seeds", "1", *changes]
        whole = ["--grid.model.stacked_layers=1,2,3,4,5", "--seeds", "10"]
        workdir = _sweep(plan, stage, ["configs/csran_embedded_inference.py", *(small if plan.quick else whole)])
    try:
        records = list(read_sweep_folder(workdir).records.values())
        figures.write(scores_against(records, "model.stacked_layers", ""), stage.folder, "stacked_layers")
    except InputError as error:
        say(f"{stage.name}: no figure: {error}")


def _data(plan: Plan) -> list[str]:
    return ["--data-directory", plan.settings.data_directory, "--vectors", plan.settings.vectors]


def _sweep(plan: Plan, stage: Stage, words: list[str]) -> Path:
    """Trains a sweep as far as the time allows, and returns its folder."""
    # Everything is below the working folder, so that this folder can be moved as a whole.
    kept = [f"--config.execution.cache_directory={plan.workdir / 'cache'}", "--config.execution.checkpoint_seconds=20"]
    # The folder is of this commit, because runs of another commit would seem to be trained by this one.
    of_code = short_commit(stage.measured_with["commit"], DIGITS)
    workdir = plan.workdir / "-".join([stage.name, Path(words[0]).stem, of_code])
    least = 10.0 if plan.quick else sweeps.LEAST_SECONDS
    sweeps.train(stage, plan.budget, [*words, *kept], workdir, least)
    return workdir


def missing_for_sweeps(settings: Settings, folder: str) -> str:
    """Returns what is missing to train on the official data in `folder`, or ""."""
    if not (settings.data_directory and settings.vectors):
        return "it needs --data-directory and --vectors"
    return "" if (Path(settings.data_directory) / folder).is_dir() else f"there is no {folder} in the data directory"


def peer_problem(settings: Settings, platform: str) -> str:
    """Returns why the peer is not measured, or "". A peer that cannot use the GPU that ours uses is not compared."""
    if not settings.peer:
        return "no --peer is given"
    if not (Path(settings.peer) / "src" / "network.py").is_file():
        return "--peer is no checkout of simple-effective-text-matching-pytorch"
    try:
        needs = "import torch, tqdm, msgpack, sklearn"
        if platform == "gpu":
            needs += "; assert torch.cuda.is_available(), 'its PyTorch sees no GPU'"
        words = [settings.peer_python, "-c", needs]
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        return f"--peer-python cannot be started ({error.strerror})"
    return (done.stderr.strip().splitlines() or ["its packages are not there"])[-1] if done.returncode else ""


# Name -> the function that measures the stage, the folder of official data that it needs ("": none), and its share of
# the time in minutes of 25. The time that a stage leaves goes to the next stages. The time that the last stage leaves
# goes to the stages that are not done, in this order.
STAGES: Mapping[str, tuple[Callable[[Plan, Stage], None], str, float]] = {
    "compiled": (compiled, "", 8),
    "dispatched": (dispatched, "", 2),
    "replicas": (replicas, "snli_1.0", 7),
    "wikiqa": (wikiqa, "WikiQACorpus", 5),
    "depth": (depth, "", 3),
    "more-replicas": (more_replicas, "snli_1.0", 0),
}
