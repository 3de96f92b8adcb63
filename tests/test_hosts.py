"""Two processes of four devices each train as one: the same records as one process of eight devices."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import small_sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.cli import distributed
from jaxmatch.cli.main import main

# Two cohorts with eight runs each.
WORDS = ("--seeds", "8", "--config.training.epochs=4", "--config.execution.maximum_replicas=8")
ENDED = (
    "jaxmatch: another process of this command has ended; run the same command on all hosts to resume from the last "
    "checkpoint"
)
PROGRAM = "import sys; from jaxmatch.cli import distributed, main; distributed.{} = {}; sys.exit(main.command())"
START, IMPATIENT = PROGRAM.format("SECONDS_TO_START", 1), PROGRAM.format("SECONDS_WITHOUT_HEARTBEAT", 6)


def start_one(files: Path, workdir: Path, devices: int, *words: str, program: tuple[str, ...] = ()) -> subprocess.Popen:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    words = small_sweep.command(files, workdir, *WORDS, *words)
    return small_sweep.start(words, *program, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")


def start_pair(files: Path, workdir: Path, *words: str, program: tuple[str, ...] = ()) -> list[subprocess.Popen]:
    """Starts two processes that train as one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    options = "--distributed", "--coordinator", address, "--processes", "2", "--process"
    options = (*words, *options)
    return [start_one(files, workdir, 4, *options, str(number), program=program) for number in range(2)]


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
    before, processes = checkpoints(workdir), start_pair(files, workdir, program=("-c", IMPATIENT))
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
        status, output, errors = killed(small_files, workdir, number, meanwhile)
        assert status and not output
        assert [line for line in errors.splitlines() if not shown(line)] == [ENDED]
    status, table, errors = ended(*single)
    assert status == 0, errors
    first, second = map(ended, start_pair(small_files, workdir))
    assert first[0] == second[0] == 0, (first, second)
    assert "cohort 1" in first[2] and first[2].count("resumed from a checkpoint") == 1
    alone = small_sweep.results(small_files / "eight")
    assert (first[1], small_sweep.results(workdir)) == (table, alone)
    assert len(alone) == 16 and first[2].count(": done") == 2
    assert not second[1] and not second[2]  # only process 0 prints


MEMORY_RUNS_OUT = """
import sys, jax
from jaxmatch.cli import distributed, main
from jaxmatch.training.programs import Program
real, calls, distributed.SECONDS_WITHOUT_HEARTBEAT = Program.__call__, [], 6
def call(self, *given):
    if self.name == "train_step":
        calls.append(self.name)
        if len(calls) == 3 and jax.process_index() == 1:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")
    return real(self, *given)
Program.__call__ = call
sys.exit(main.command())
"""


@pytest.mark.slow
def test_an_error_on_one_host_ends_all(small_files, tmp_path):
    processes = start_pair(small_files, tmp_path, "--config.training.epochs=1", program=("-c", MEMORY_RUNS_OUT))
    first, second = map(ended, processes)
    assert first[0] and first[2].splitlines()[-1] == ENDED
    assert second[0] == 2 and second[2].startswith("jaxmatch: training failed on process 1 (RESOURCE_EXHAUSTED")
    assert second[2].endswith("; run the same command again on all hosts\n") and second[2].count("\n") == 1


def shown(line: str) -> bool:
    """Returns whether a line is part of the plan or of a cohort's progress."""
    return line.startswith(("sweep small", "  ", "cohort "))


EXPECTED = "Expected number of connected peer ranks is : "
GLOO = "[Gloo] Rank ", "1", " is connected to ", "7", " peer ranks. ", EXPECTED, "7\n"


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(range(3)), max_size=3 * len(GLOO)))
def test_gloo_messages_are_filtered_however_the_writes_interleave(turns):
    """Three threads write at the same time."""
    threads = [list(GLOO) for _ in range(3)]
    pieces = [threads[turn].pop(0) for turn in turns if threads[turn]] + sum(threads, [])
    done = subprocess.run(
        [sys.executable, "-S", "-c", distributed.FILTER, ENDED],
        input="".join(pieces) + "loss 7\n",
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("", "loss 7\n")


def test_missing_processes_are_reported_in_one_line(small_files, tmp_path):
    words = small_sweep.command(small_files, tmp_path / "runs", "--distributed", "--coordinator", "127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as server:
        words[-1] = f"127.0.0.1:{server.getsockname()[1]}"
    process = small_sweep.start([*words, "--processes", "2", "--process", "0"], "-c", START, JAX_PLATFORMS="cpu")
    message = "jaxmatch: not all processes have connected; start the same command on every host\n"
    assert ended(process) == (2, "", message)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no answer at the coordinator's address 127.0.0.1:1 ("),
        ("nowhere.invalid:1234", "no answer at the coordinator's address nowhere.invalid:1234 ("),
        ("somewhere", "--coordinator somewhere is not an address; give HOST:PORT of process 0"),
    ],
)
def test_an_unusable_coordinator_is_reported_in_one_line(small_files, tmp_path, monkeypatch, capsys, address, message):
    monkeypatch.setattr(distributed, "SECONDS_TO_START", 1)
    words = "--distributed", "--coordinator", address, "--processes", "2", "--process", "1"
    assert main(small_sweep.command(small_files, tmp_path / "runs", *words)) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"jaxmatch: {message}") and errors.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_process_option_requires_the_distributed_option(capsys):
    assert main(["train", "re2", "--process", "1"]) == 2
    assert capsys.readouterr().err == "jaxmatch: --process needs --distributed\n"
