"""Tests of `make clusters` on Ray clusters of one machine: deaths, interrupts, joining nodes, tuning, `ray start`."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import s3_server
import small_sweep
from ray_driver import LONG, WORDS, Driver, alone, on
from ray_nodes import STORE, Nodes

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxmatch[ray]'")
pytestmark = pytest.mark.clusters

# Another score, which the workers must know, too.
SCORE = """
from jaxmatch.config.settings import Score
from jaxmatch.extend import add_score
add_score(Score("always", "always"), lambda labels, outputs: outputs[..., 0].mean(-1) * 0 + 0.5, "classification")
"""
# A command that reports what can make Ray end it: cancelling a task at the moment when the task ends.
INTERRUPTIBLE = """
import signal, sys
import ray
from jaxmatch.cli import main

def cancel(answer, *, force=False, original=ray.cancel):
    if force and ray.wait([answer], timeout=0)[0]:
        print("a task that had ended was cancelled", file=sys.stderr)
    original(answer, force=force)

ray.cancel = cancel
# A process that a shell starts in the background ignores interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main.command())
"""


@pytest.fixture
def nodes():
    cluster = Nodes(3)
    yield cluster
    cluster.close()


@pytest.fixture(params=["a shared folder", "an object store"])
def place(request, tmp_path):
    """A cluster, the words of a command that trains there, and the folders of the first and the second command."""
    if request.param == "a shared folder":
        cluster = request.getfixturevalue("nodes")
        yield cluster, on(cluster, *LONG), tmp_path, tmp_path
        return
    with s3_server.serving():
        (tmp_path / "nodes").mkdir()
        cluster = Nodes(3, NODE_FOLDERS=str(tmp_path / "nodes"))
        words = on(cluster, *LONG, "--store", f"s3://{s3_server.BUCKET}/small")
        yield cluster, words, tmp_path / "first", tmp_path / "second"
        cluster.close()


def test_records_equal_one_process_after_node_worker_and_driver_die(small_files, place, one_process):
    nodes, words, before, after = place
    first = Driver(small_files, before, *words)
    first.until("epoch 2,")
    nodes.remove(2)
    first.until("its worker died (NodeDiedError); it resumes from its last checkpoint")
    os.kill(nodes.workers()[0], signal.SIGKILL)
    first.until("its worker died (WorkerCrashedError); it resumes from its last checkpoint")
    first.until("epoch")
    first.kill()
    assert len(small_sweep.records(before)) < 6
    if before != after:
        shutil.rmtree(before)
    second = Driver(small_files, after, *words)
    assert second.finished(after) == one_process and len(one_process[1]) == 6
    assert ": continues " in "".join(second.lines)
    assert not list(after.glob("cohorts/*/error.json"))


def test_interrupt_saves_checkpoints_from_which_the_sweep_resumes(small_files, tmp_path, nodes):
    settings = {"training.epochs": "600", "execution.checkpoint_seconds": "3600"}
    words = on(nodes, *WORDS, *(f"--config.{name}={value}" for name, value in settings.items()))
    driver = Driver(small_files, tmp_path / "ray", *words, program=("-c", INTERRUPTIBLE))
    driver.until("epoch 2,")
    driver.process.send_signal(signal.SIGINT)
    assert driver.ended() == (130, ""), "".join(driver.lines)
    assert driver.lines[-1] == "jaxmatch: interrupted; run the same command to resume\n"
    assert "a task that had ended was cancelled\n" not in driver.lines
    saved = [path for path in tmp_path.glob("ray/cohorts/*/checkpoints/*") if path.name.isdigit()]
    assert saved and not small_sweep.records(tmp_path / "ray")
    driver = Driver(small_files, tmp_path / "ray", *words)
    found = driver.finished(tmp_path / "ray")
    assert sum(": continues " in line for line in driver.lines) == len(saved)
    assert found == alone(small_files, tmp_path / "here", **settings)


def test_imported_extensions_are_available_in_workers(small_files, tmp_path, nodes, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("score.py").write_text(SCORE)
    words = (*WORDS, "--import", "score.py", "--config.training.selection=always")
    found = [
        Driver(small_files, tmp_path / name, *where(*words)).finished(tmp_path / name)
        for name, where in (("here", lambda *words: words), ("ray", lambda *words: on(nodes, *words)))
    ]
    assert found[0] == found[1]


def test_sweep_runs_on_nodes_started_by_ray_start(small_files, tmp_path, one_process):
    """Two nodes are started as a user starts them, and are found by the address of this machine."""
    ray = (sys.executable, "-m", "ray.scripts.scripts")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    temporary = Path("/tmp") / f"jm{os.getpid()}"  # the path of a socket must be short
    variables = {**os.environ, "RAY_TMPDIR": str(temporary), "RAY_USAGE_STATS_ENABLED": "0"}
    variables["RAY_AUTH_MODE"] = "disabled"  # otherwise Ray requires a token if this user has one
    size = ("--num-cpus=1", f"--object-store-memory={STORE}", "--disable-usage-stats", "--block")
    head = (*ray, "start", "--head", f"--port={port}", "--include-dashboard=false", *size)
    started = []
    try:
        for words in (head, (*ray, "start", f"--address=127.0.0.1:{port}", *size)):
            process = subprocess.Popen(
                words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            started.append(process)
            lines = []
            while not any("Ray runtime started" in line for line in lines):
                lines.append(process.stdout.readline())
                assert lines[-1], f"{words} did not start: {''.join(lines)}"
        driver = Driver(small_files, tmp_path, "--on", "ray", *LONG, RAY_ADDRESS=f"127.0.0.1:{port}")
        assert driver.finished(tmp_path) == one_process
        assert any("trained by 2 workers at once" in line for line in driver.lines)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=60)
            process.stdout.close()
        shutil.rmtree(temporary, ignore_errors=True)
