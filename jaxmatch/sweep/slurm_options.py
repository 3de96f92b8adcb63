"""What jobs ask of Slurm: a small TOML file (`--slurm FILE`).

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
    """What each job of a cohort is given, and how.

    Attributes:
      partition: of the cluster; None: its default. Likewise `account`, `qos` and `constraint`.
      minutes: time limit of a job; a cohort that needs longer is queued again.
      signal_seconds: how long before that a job is told to write a checkpoint.
      memory_gb: of a job; None: the cluster's default.
      cpus: of a job; None: as many as XLA uses here, or, with `gpus`, the cluster's default.
      gpus: of a job; 0: it trains on CPUs.
      gpu_memory_gb: of one GPU; the plan is made for it.
      at_once: how many jobs of an array may run at once; cohorts are cut to fill them. None: no limit, no cut.
      sbatch: more options of sbatch.
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
    """The options of a file.

    Arguments:
      path: None: all as they are without a file.

    Raises:
      InputError: there is no such file, or something in it is no option or cannot be its value.
    """
    if path is None:
        return SlurmOptions()
    check_plain_file(path, remedy=REMEDY)
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", path=path) from None
    except ValueError as error:
        raise InputError(f"this is not TOML ({error})", path=path, remedy=REMEDY) from None
    known = [field.name for field in dataclasses.fields(SlurmOptions)]
    for name, value in told.items():
        if name not in known:
            raise InputError(f'there is no option "{name}"', path=path, remedy=nearest(name, known))
        if wanted := _wanted(name, value):
            raise InputError(f"{name} = {value!r} is not {wanted}", path=path)
    options = SlurmOptions(**told)
    if options.gpus and options.gpu_memory_gb is None:
        raise InputError("gpus needs gpu_memory_gb, the memory that runs are planned for", path=path)
    if options.signal_seconds >= 60 * options.minutes:
        raise InputError("signal_seconds is not less than the time of a job", path=path)
    return options


def _wanted(name: str, value: Any) -> str:
    """What a value should be, if it is not."""
    if name == "sbatch":
        return "" if isinstance(value, dict) else "a table"
    if name in _TEXTS:
        return "" if isinstance(value, str) and value and value.isprintable() else "a text"
    kinds = (int, float) if name in _MAY_BE_FRACTIONS else (int,)
    number = isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < float("inf")
    if number and (value or name == "gpus"):
        return ""
    return "a number above 0" if name in _MAY_BE_FRACTIONS else f"a whole number from {int(name != 'gpus')} on"
