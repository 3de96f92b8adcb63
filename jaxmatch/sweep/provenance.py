"""Where a result comes from: the versions, the commit and the device that trained it, and the record of a run."""

import contextlib
import functools
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

import jaxmatch
from jaxmatch.data import catalog
from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import products_of
from jaxmatch.errors import InputError
from jaxmatch.models import count_parameters
from jaxmatch.reporting.records import FORMAT
from jaxmatch.sweep.sweep import Run
from jaxmatch.training.cohort import Cohort, RunResult
from jaxmatch.workdir import CohortFolder


@functools.cache
def versions() -> dict[str, str]:
    """Returns the versions of Python, jaxmatch and the packages that a result may depend on."""
    packages = ("jax", "jaxlib", "flax", "optax", "numpy", "nltk", "ml-collections")
    found = {name: metadata.version(name) for name in packages}
    return {"python": platform.python_version(), "jaxmatch": jaxmatch.__version__, **found}


def check_versions(expected: Mapping[str, str], where: str) -> None:
    """Checks that this process runs the versions of the process that sent it here. Raises InputError if not."""
    for name, version in versions().items():
        if version != expected[name]:
            problem = f"{where} runs {name} {version}, not {expected[name]}"
            raise InputError(problem, remedy="install the same versions there")


# Linux's list of processors.
PROCESSORS = Path("/proc/cpuinfo")


def device_name(devices: Sequence[jax.Device]) -> str:
    """Returns a description of devices, such as "1 x cpu (AMD EPYC, AVX2, 2 cores)".

    Virtual machines often name only the family of a processor, and processors of one family can differ in the widest
    vector instructions.
    """
    if devices[0].platform != "cpu":
        return f"{len(devices)} x {devices[0].device_kind}"
    about: dict[str, str] = {}
    with contextlib.suppress(OSError):
        pairs = (line.partition(":") for line in PROCESSORS.read_text().split("\n\n")[0].splitlines())
        about = {key.strip(): value.strip() for key, _, value in pairs}
    flags = about.get("flags", "").split()
    vectors = "AVX-512, " if "avx512f" in flags else "AVX2, " if "avx2" in flags else ""
    name = about.get("model name") or platform.processor() or platform.machine()
    return f"{len(devices)} x cpu ({name}, {vectors}{os.cpu_count()} cores)"


@functools.cache
def commit(*others: str) -> str:
    """Returns the commit of the checkout that this package runs from; "" outside of a checkout.

    It ends in "+" if files of the package, or others that match patterns such as "benchmarks/*.py", have changed since.
    """

    def git(*words: str) -> str:
        folder = Path(jaxmatch.__file__).parent
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        # Other processes may use git at the same time, hence no locks. The user's own settings may hide new files.
        status = ("--no-optional-locks", "status", "--porcelain", "--untracked-files=normal", "--", ".")
        changed = git(*status, *(f":/{pattern}" for pattern in others))
        return git("rev-parse", "HEAD").strip() + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""


def origin(devices: Sequence[jax.Device]) -> dict[str, Any]:
    """Returns what trains in this process: the "commit", the "versions" of packages, and the "device"."""
    return {"commit": commit(), "versions": versions(), "device": device_name(devices)}


def make_record(
    run: Run,
    result: RunResult,
    *,
    sweep: str,
    folder: CohortFolder,
    data: EncodedData,
    cohort: Cohort,
    devices: Sequence[jax.Device],
    halving: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the record of a run, as plain values for JSON (docs/reference/files.md).

    Its times are those of the whole cohort, which trains together. `trained_by` is there if training was resumed with
    other code, packages or devices, and `ran_out` if memory ran out.
    """
    progress, dropped = result.progress, None
    if progress.status == "dropped":
        after = progress.dropped_at // data.splits["train"].pairs
        dropped = {"after_epochs": after, "at_samples": progress.dropped_at, **(halving or {})}
    runs, answered = len(cohort.runs), cohort.evaluator.totals
    microseconds = 1e6 * answered["seconds"] / answered["pairs"] if answered["pairs"] else None
    return {
        "format": FORMAT,
        "run": run.identity(data.fingerprint),
        "sweep": sweep,
        "cohort": folder.name,
        "seed": run.seed,
        "variant": run.variant,
        "overrides": dict(run.overrides),
        "config": run.config.to_dict(),
        "status": progress.status,
        "dropped": dropped,
        "diverged_at_samples": progress.diverged_at,
        "selected_on": f"dev.{run.config.training.selection}",
        "selected_at_samples": progress.best_at if progress.best is not None else None,
        "stopped_early": progress.stopped,
        "dev": progress.best,
        "test": result.test,
        **({"test_sampling": result.test_sampling} if result.test_sampling else {}),
        "best_on_test": progress.best_on_test,
        "curve": progress.curve,
        "times": {
            **{f"{name}_seconds": round(value, 3) for name, value in cohort.seconds.items()},
            **{f"{name}_steps": number for name, number in cohort.steps.items()},
            "replicas": runs,
            "train_seconds_a_run": round(cohort.seconds["train"] / runs, 3),
            "inference_microseconds_a_pair": microseconds and round(microseconds, 3),
        },
        **origin(devices),
        **({"trained_by": cohort.origins} if len(cohort.origins) > 1 else {}),
        "products": products_of(run.config.model.precision, devices[0]),
        "data": {
            "name": data.name,
            "fingerprint": data.fingerprint,
            "files": dict(data.files),
            **{split: data.splits[split].pairs if split in data.splits else 0 for split in ("train", "dev", "test")},
            "about": {split: text for split, text in catalog.about(data.name).items() if split in data.splits},
            **{name: data.report.get(name) for name in ("dropped", "in_train", "vectors", "coverage")},
        },
        "parameters": count_parameters(result.parameters),
        **({"ran_out": cohort.ran_out} if cohort.ran_out else {}),
    }
