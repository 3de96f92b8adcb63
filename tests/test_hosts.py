"""Two processes of four devices each train as one: the same records as one process of eight devices."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import small_sweep

from jaxmatch.cli.main import main

# Two cohorts with eight runs each.
WORDS = ("--seeds", "8", "--config.training.epochs=4", "--config.execution.maximum_replicas=8")
IMPATIENT = """
import sys
from jaxmatch.cli import main
from jaxmatch.training import hosts
hosts.SECONDS_WITHOUT_HEARTBEAT = 6
"""
START = "sys.exit(main.command())\n"


def start_one(files: Path, workdir: Path, devices: int, *words: str, program: tuple[str, ...] = ()) -> subprocess.Popen:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    words = small_sweep.command(files, workdir, *WORDS, *words)
    return small_sweep.start(words, *program, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")


def start_pair(files: Path, workdir: Path, *words: str, program: str = IMPATIENT) -> list[subprocess.Popen]:
    """Starts two processes that train as one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    options = (*words, "--distributed", "--coordinator", address, "--process")
    return [start_one(files, workdir, 4, *options, f"{n}/2", program=("-c", program + START)) for n in range(2)]


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def checkpoints(workdir: Path) -> set[str]:
    return {str(path) for path in workdir.glob("cohorts/*/checkpoints/*") if path.name.isdigit()}


def killed(
    files: Path, workdir: Path, number: int, meanwhile: Callable[[], None] = lambda: None
) -> tuple[int, str, str]:
    """Kills one of two processes once there is a new checkpoint, and returns how the other one ends. `meanwhile` is
    called before the other one can notice it.
    """
    before, processes = checkpoints(workdir), start_pair(files, workdir)
    while not checkpoints(workdir) - before:
        assert [process.poll() for process in processes] == [None, None]
        time.sleep(0.05)
    processes[number].send_signal(signal.SIGKILL)
    meanwhile()
    ended(processes[number])
    return ended(processes[1 - number])


@pytest.mark.slow
def test_two_processes_match_a_single_process_after_kills(small_files):
    """The first cohort resumes from its checkpoints, and the second is trained without a kill."""
    workdir, single = small_files / "killed", []

    def start_single() -> None:
        single.append(start_one(small_files, small_files / "eight", 8))

    for number, meanwhile in ((1, start_single), (0, lambda: None)):
        status, output, _ = killed(small_files, workdir, number, meanwhile)
        assert status and not output
    status, table, errors = ended(*single)
    assert status == 0, errors
    first, second = map(ended, start_pair(small_files, workdir))
    assert first[0] == second[0] == 0, (first, second)
    assert "cohort 1" in first[2] and first[2].count(": continues ") == 1
    alone = small_sweep.results(small_files / "eight")
    assert (first[1], small_sweep.results(workdir)) == (table, alone)
    assert len(alone) == 16 and first[2].count(": done") == 2
    assert not second[1] and "cohort" not in second[2]  # only process 0 prints


MEMORY_RUNS_OUT = """
import jax
from jaxmatch.training.chunks import Program
real, calls = Program.__call__, []
def call(self, *given):
    if self.name == "train_step":
        calls.append(self.name)
        if len(calls) == 3 and jax.process_index() == 1:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")
    return real(self, *given)
Program.__call__ = call
"""
OTHER_DATA = """
import jax
from jaxmatch.sweep import launch
prepare = launch.prepare
def other(config):
    with config.unlocked():
        config.data.directory = config.data.directory + "-other"
    return prepare(config)
launch.prepare = other
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    [(MEMORY_RUNS_OUT, "out of device memory; "), (OTHER_DATA, "the data differ from those of process 0; ")],
)
def test_an_error_on_one_host_ends_all(small_files, tmp_path, fault, reason):
    other = small_files.with_name(f"{small_files.name}-other")
    if not other.exists():
        small_sweep.write_files(other)
        lines = (other / "train.tsv").read_text().splitlines()
        (other / "train.tsv").write_text("\n".join(lines[:-1]) + "\n")
    pair = start_pair(small_files, tmp_path, "--config.training.epochs=1", program=IMPATIENT + fault)
    first, second = map(ended, pair)
    assert first[0] and second[0] == 2 and not small_sweep.records(tmp_path)
    assert second[2].splitlines()[-1].startswith(f"jaxmatch: {reason}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--coordinator", "somewhere"), "somewhere is not an address; give --coordinator HOST:PORT of process 0"),
        (("--process", "1/2"), "the processes cannot connect to each other ("),
    ],
)
def test_processes_that_cannot_connect_are_reported_in_one_line(small_files, tmp_path, capfd, words, message):
    assert main(small_sweep.command(small_files, tmp_path / "runs", *words)) == 2
    errors = capfd.readouterr().err
    assert errors.startswith(f"jaxmatch: {message}") and errors.count("\n") == 1
    assert not (tmp_path / "runs").exists()
