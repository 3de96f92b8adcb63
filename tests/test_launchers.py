"""The environment variables of launchers determine whether a process runs alone or as one of several."""

import argparse
import types

import jax
import pytest

from jaxmatch.cli import distributed, launchers
from jaxmatch.devices import available_devices
from jaxmatch.errors import InputError

FOUR = "t1v-0,t1v-1,t1v-2,t1v-3"


@pytest.mark.parametrize(
    ("variables", "count", "reason"),
    [
        ({}, 1, ""),
        # Several implementations of MPI.
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, 2, "OMPI_COMM_WORLD_SIZE=2"),
        ({"PMI_SIZE": "8", "PMI_RANK": "3"}, 8, "PMI_SIZE=8"),
        ({"PMI_SIZE": "1", "OMPI_COMM_WORLD_SIZE": "1"}, 1, ""),
        # A TPU VM with one host.
        ({"TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0"}, 1, ""),
        ({"TPU_WORKER_HOSTNAMES": ""}, 1, ""),
        ({"TPU_WORKER_HOSTNAMES": "t1v-0", "MEGASCALE_NUM_SLICES": "1"}, 1, ""),
        # A pod slice, several slices, and both.
        ({"TPU_WORKER_HOSTNAMES": FOUR, "TPU_WORKER_ID": "0"}, 4, "TPU_WORKER_HOSTNAMES has 4 hosts"),
        (
            {"TPU_PROCESS_ADDRESSES": "a:8476,b:8476", "TPU_WORKER_HOSTNAMES": "a"},
            2,
            "TPU_PROCESS_ADDRESSES has 2 hosts",
        ),
        ({"TPU_WORKER_HOSTNAMES": "a", "MEGASCALE_NUM_SLICES": "2"}, 2, "MEGASCALE_NUM_SLICES=2"),
        (
            {"TPU_WORKER_HOSTNAMES": FOUR, "MEGASCALE_NUM_SLICES": "2"},
            8,
            "TPU_WORKER_HOSTNAMES has 4 hosts, MEGASCALE_NUM_SLICES=2",
        ),
        # Hosts of a slice that are configured to run alone or without TPUs, and hosts that are not.
        ({"TPU_WORKER_HOSTNAMES": FOUR, "TPU_PROCESS_BOUNDS": "1,1,1"}, 1, ""),
        ({"TPU_WORKER_HOSTNAMES": FOUR, "TPU_HOST_BOUNDS": "2,2,1"}, 4, "TPU_WORKER_HOSTNAMES has 4 hosts"),
        ({"TPU_WORKER_HOSTNAMES": FOUR, "JAX_PLATFORMS": "cpu"}, 1, ""),
        ({"TPU_WORKER_HOSTNAMES": FOUR, "JAX_PLATFORMS": "tpu,cpu"}, 4, "TPU_WORKER_HOSTNAMES has 4 hosts"),
        # A job submitted by --on slurm, and Slurm scripts that are not started by srun.
        ({"SLURM_PROCID": "x", "SLURM_NTASKS": "4"}, 1, ""),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_ARRAY_TASK_COUNT": "9"}, 1, ""),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, 1, ""),
    ],
)
def test_process_count_is_read_from_launcher_variables(variables, count, reason):
    assert launchers.processes(variables) == (count, reason)


def check(variables):
    arguments = argparse.Namespace(coordinator=None, processes=None, process=None)
    distributed.check_single_process(arguments, variables)


def test_pod_slice_host_without_distributed_is_an_error():
    with pytest.raises(InputError) as caught:
        check({"TPU_WORKER_HOSTNAMES": FOUR})
    assert str(caught.value) == (
        "this is one of 4 processes (TPU_WORKER_HOSTNAMES has 4 hosts); add --distributed, or start one process"
    )


def test_pod_of_an_indexed_job_prints_that_it_trains_alone(capsys):
    """The pods may share a sweep, like launchers on one folder, or each may train its own sweep."""
    check({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"})
    assert capsys.readouterr().err == (
        "this pod of a Kubernetes Job (JOB_COMPLETION_INDEX=3) trains on its own; --distributed makes its pods "
        "train as one\n"
    )
    check({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert not capsys.readouterr().err


def test_devices_of_several_processes_require_distributed(monkeypatch):
    """This happens on a TPU slice whose hosts are listed by a metadata server only."""
    devices = [types.SimpleNamespace(process_index=process) for process in (0, 0, 1, 1)]
    monkeypatch.setattr(jax, "devices", lambda platform: devices)
    with pytest.raises(InputError, match="one of 2 processes that share 4 devices; train with --distributed"):
        available_devices()
    monkeypatch.setattr(jax, "devices", lambda platform: devices[:2])
    assert available_devices() == devices[:2]
    monkeypatch.setattr(jax, "devices", lambda platform: devices)
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    assert available_devices() == devices
