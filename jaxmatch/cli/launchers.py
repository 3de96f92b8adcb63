"""Detection of launchers that have started this process as one of several, from its environment variables."""

import math
from collections.abc import Mapping

# Variables that hold the number of processes that a launcher has started. Only `srun` sets the first. Open MPI sets the
# second; MPICH and related launchers set the third.
_COUNTED = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
# Variables with the hosts of a TPU slice, and with the layout of its processes. Of each pair, JAX and libtpu prefer the
# first.
_TPU_HOSTS = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")
_TPU_BOUNDS = ("TPU_PROCESS_BOUNDS", "TPU_HOST_BOUNDS")
_TPU_SLICES = "MEGASCALE_NUM_SLICES"
_INDEX_IN_KUBERNETES = "JOB_COMPLETION_INDEX"


def processes(variables: Mapping[str, str]) -> tuple[int, str]:
    """Returns how many processes a launcher has started to work as one, and the variables that state it.

    Arguments:
      variables: the environment variables.

    Returns:
      The number of processes, including this one, and the variables as text; 1 and "" if no variable states that there
      are several.
    """
    counts = {name: variables.get(name, "") for name in _COUNTED}
    index = variables.get("SLURM_PROCID", "")
    if index.isdigit() and int(index) > 0:
        counts["SLURM_NTASKS"] = variables.get("SLURM_NTASKS", "")
    for name, count in counts.items():
        if count.isdigit() and int(count) > 1:
            return int(count), f"{name}={count}"
    return _on_tpus(variables)


def _on_tpus(variables: Mapping[str, str]) -> tuple[int, str]:
    """Counts the hosts of TPU slices, for `processes`. On each host, libtpu waits for the other hosts."""
    platforms = variables.get("JAX_PLATFORMS", "")
    if platforms and "tpu" not in platforms.split(","):
        return 1, ""
    for name in _TPU_BOUNDS:
        bounds = variables.get(name, "").split(",")
        if all(each.isdigit() for each in bounds) and math.prod(map(int, bounds)) == 1:
            return 1, ""  # each process works on its own
    name = next((name for name in _TPU_HOSTS if name in variables), _TPU_HOSTS[-1])
    hosts = len([each for each in variables.get(name, "").split(",") if each.strip()])
    slices = variables.get(_TPU_SLICES, "")
    count = int(slices) if slices.isdigit() and int(slices) > 1 else 1
    reasons = [f"{name} has {hosts} hosts"] * (hosts > 1) + [f"{_TPU_SLICES}={slices}"] * (count > 1)
    return max(1, hosts) * count, ", ".join(reasons)


def kubernetes_note(variables: Mapping[str, str]) -> str:
    """Returns a note about a process that may be one of several or may be meant to train alone, or ""."""
    index = variables.get(_INDEX_IN_KUBERNETES, "")
    if not index.isdigit():
        return ""
    return (
        f"this pod of a Kubernetes Job ({_INDEX_IN_KUBERNETES}={index}) trains on its own; --distributed makes its "
        "pods train as one"
    )
