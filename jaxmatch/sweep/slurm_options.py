"""Options of Slurm jobs, from a small TOML file (`--slurm FILE`).

partition = "gpu"
minutes = 240
gpus = 1
gpu_memory_gb = 40

[sbatch]            # any other option of sbatch
mail-type = "FAIL"
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, nearest
from jaxmatch.plain_file import check_plain_file

REMEDY = "see docs/how_to/clusters.md"


@dataclasses.dataclass(frozen=True)
class SlurmOptions:
    """The resources and limits of the jobs that train cohorts.

    Attributes:
      partition: the partition of the cluster. None means the default of the cluster, as for `account`, `qos` and
        `constraint`.
      minutes: the time limit of a job, in minutes. A cohort that needs longer is queued again.
      signal_seconds: how many seconds before the time limit a job is told to write a checkpoint.
      memory_gb: the memory of a job, in GB. None means the default of the cluster.
      cpus: the number of CPUs of a job. None means as many as XLA uses on this machine or, with `gpus`, the default of
        the cluster.
      gpus: the number of GPUs of a job. With 0 GPUs, a job trains on CPUs.
      gpu_memory_gb: the memory of one GPU, in GB, for which the plan is made.
      at_once: the number of jobs of an array that may run at the same time. Cohorts are split to fill them. None means
        no limit and no split.
      sbatch: additional options of sbatch.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    minutes: int = 60
    signal_seconds: int = 90
    memory_gb: float | None = None
    cpus: int | None = None
    gpus: int = 0
    gpu_memory_gb: float | None = None
    at_once: int | None = None
    sbatch: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_TEXTS = {"partition", "account", "qos", "constraint"}
_MAY_BE_FRACTIONS = {"memory_gb", "gpu_memory_gb"}


def read_options(path: Path | None) -> SlurmOptions:
    """Reads the options of a file.

    Arguments:
      path: the file to read. None means the default options.

    Raises:
      InputError: the file does not exist or is not TOML, or it contains an unknown option or an invalid value.
    """
    if path is None:
        return SlurmOptions()
    check_plain_file(path, remedy=REMEDY)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", path=path) from None
    except ValueError as error:
        raise InputError(f"this is not TOML ({error})", path=path, remedy=REMEDY) from None
    known = [field.name for field in dataclasses.fields(SlurmOptions)]
    for name, value in given.items():
        if name not in known:
            raise InputError(f'there is no option "{name}"', path=path, remedy=nearest(name, known))
        if wanted := _wanted(name, value):
            raise InputError(f"{name} = {value!r} is not {wanted}", path=path)
    options = SlurmOptions(**given)
    if options.gpus and options.gpu_memory_gb is None:
        raise InputError(
            f"gpus = {options.gpus} needs gpu_memory_gb, the memory of one GPU in GB",
            path=path,
            remedy="add gpu_memory_gb to the file",
        )
    if options.signal_seconds >= 60 * options.minutes:
        raise InputError(
            f"signal_seconds = {options.signal_seconds} is not below the time limit, minutes = {options.minutes}",
            path=path,
            remedy="lower signal_seconds, or raise minutes",
        )
    return options


def _wanted(name: str, value: Any) -> str:
    """Returns what the value of an option must be, or "" if `value` is valid."""
    if name == "sbatch":
        return "" if isinstance(value, dict) else "a table"
    if name in _TEXTS:
        return "" if isinstance(value, str) and value and value.isprintable() else "a text"
    kinds = (int, float) if name in _MAY_BE_FRACTIONS else (int,)
    number = isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < float("inf")
    if number and (value or name == "gpus"):
        return ""
    return "a number above 0" if name in _MAY_BE_FRACTIONS else f"a whole number from {int(name != 'gpus')} on"
