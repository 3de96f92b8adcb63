"""The record of a run."""

import dataclasses
import functools
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

import jaxmatch
from jaxmatch.data import catalog
from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import products_of
from jaxmatch.models import count_parameters
from jaxmatch.reporting.records import FORMAT
from jaxmatch.sweep.sweep import Run
from jaxmatch.training.cohort import RanOut, RunResult
from jaxmatch.workdir import CohortFolder

# Linux's list of processors.
PROCESSORS = Path("/proc/cpuinfo")
# Flag in this list -> name, the widest vectors first. Virtual machines often name no more than the family of their
# processor, and processors of one family can differ in this.
_VECTOR_INSTRUCTIONS = {"avx512f": "AVX-512", "avx2": "AVX2"}
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "nltk", "ml-collections")


@functools.cache
def versions() -> dict[str, str]:
    """Returns the versions of Python, jaxmatch and the packages that a result may depend on."""
    found = {"python": platform.python_version(), "jaxmatch": jaxmatch.__version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def device_name(devices: Iterable[jax.Device]) -> str:
    """Returns a description of devices, such as "1 x cpu (AMD EPYC, AVX2, 2 cores)"."""
    devices = list(devices)
    kind = devices[0].device_kind
    if devices[0].platform == "cpu":
        kind = f"cpu ({_processor()})"
    return f"{len(devices)} x {kind}"


def _processor() -> str:
    about = _first_processor()
    name = about.get("model name") or platform.processor() or platform.machine()
    flags = about.get("flags", "").split()
    vectors = next((f"{text}, " for flag, text in _VECTOR_INSTRUCTIONS.items() if flag in flags), "")
    return f"{name}, {vectors}{os.cpu_count()} cores"


def _first_processor() -> dict[str, str]:
    """Returns the entry of the first processor in `PROCESSORS`, or nothing if there is no such file."""
    try:
        first = PROCESSORS.read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


@functools.cache
def commit(*others: str) -> str:
    """Returns the commit of the checkout that this package runs from.

    The commit ends in "+" if files of the package were changed or added since, and is "" outside of a checkout.

    Arguments:
      others: patterns of other files of the checkout whose changes count, such as "benchmarks/*.py".
    """
    folder = Path(jaxmatch.__file__).parent
    try:
        inside = subprocess.run(
            ["git", "ls-files", "--error-unmatch", "__init__.py"], cwd=folder, capture_output=True, check=False
        )
        if inside.returncode:
            return ""
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
        files = [".", *(f":/{pattern}" for pattern in others)]
        # Other processes may use git at the same time, hence no locks. The user's own settings may hide new files.
        status = ["git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=normal", "--", *files]
        changed = subprocess.run(status, cwd=folder, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + "+" * bool(changed.stdout)


def origin(devices: Iterable[jax.Device]) -> dict[str, Any]:
    """Returns what trains in this process: the "commit", the "versions" of packages, and the "device"."""
    return {"commit": commit(), "versions": versions(), "device": device_name(devices)}


def make_record(
    run: Run,
    *,
    sweep: str,
    cohort: CohortFolder,
    data: EncodedData,
    result: RunResult,
    seconds: Mapping[str, float],
    answered: Mapping[str, float],
    replicas: int,
    devices: Sequence[jax.Device],
    steps: Mapping[str, int],
    origins: Sequence[Mapping[str, Any]] = (),
    halving: Mapping[str, Any] | None = None,
    ran_out: Sequence[RanOut] = (),
) -> dict[str, Any]:
    """Returns the record of a run, as plain values for JSON.

    `times` holds the times of the whole cohort, which trains together. Its `replicas` is the number of runs that
    share them. The training time per run and the time to predict a pair (see `Evaluator.totals`) make models
    comparable. `dropped` tells how far a run with the status "dropped" was trained, and by which rule it was dropped
    (`halving`, see `halving.Halving`). `products` is the precision that matrix products actually have on the devices
    (`devices.products_of`). `ran_out` exists if a device ran out of memory, and tells how training continued
    (`cohort.RanOut`). `trained_by` exists if training was resumed with other code, packages or devices; it holds the
    `origins` in order. `test_sampling` exists if a ranking was scored on test (`ranking.ranking_deviations`).
    """
    progress = result.progress
    dropped = None
    if progress.status == "dropped":
        after = progress.dropped_at // data.splits["train"].pairs
        dropped = {"after_epochs": after, "at_samples": progress.dropped_at, **(halving or {})}
    selection = run.config.training.selection
    return {
        "format": FORMAT,
        "run": run.identity(data.fingerprint),
        "sweep": sweep,
        "cohort": cohort.name,
        "seed": run.seed,
        "variant": run.variant,
        "overrides": dict(run.overrides),
        "config": run.config.to_dict(),
        "status": progress.status,
        "dropped": dropped,
        "diverged_at_samples": progress.diverged_at,
        "selected_on": f"dev.{selection}",
        "selected_at_samples": progress.best_at if progress.best is not None else None,
        "stopped_early": progress.stopped,
        "dev": progress.best,
        "test": result.test,
        **({"test_sampling": result.test_sampling} if result.test_sampling else {}),
        "best_on_test": progress.best_on_test,
        "curve": progress.curve,
        "times": {
            **{f"{name}_seconds": round(value, 3) for name, value in seconds.items()},
            **{f"{name}_steps": number for name, number in steps.items()},
            "replicas": replicas,
            "train_seconds_a_run": round(seconds["train"] / replicas, 3),
            "inference_microseconds_a_pair": round(1e6 * answered["seconds"] / answered["pairs"], 3)
            if answered["pairs"]
            else None,
        },
        **origin(devices),
        **({"trained_by": list(origins)} if len(origins) > 1 else {}),
        "products": products_of(run.config.model.precision, devices[0]),
        "data": {
            "name": data.name,
            "fingerprint": data.fingerprint,
            "files": dict(data.files),
            **{split: data.splits[split].pairs if split in data.splits else 0 for split in ("train", "dev", "test")},
            "about": {split: text for split, text in catalog.about(data.name).items() if split in data.splits},
            "dropped": data.report.get("dropped"),
            "in_train": data.report.get("in_train"),
            "vectors": data.report.get("vectors"),
            "coverage": data.report.get("coverage"),
        },
        "parameters": count_parameters(result.parameters),
        **({"ran_out": [dataclasses.asdict(event) for event in ran_out]} if ran_out else {}),
    }
