"""Tests of `make clusters` on Ray clusters of one machine: killed workers, joining nodes, tuning, `ray start`."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import small_sweep
from ray_driver import LONG, WORDS, Driver, alone, on, refused
from ray_nodes import STORE, Nodes

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxmatch[ray]'")
pytestmark = pytest.mark.clusters

# Loaded by --import in the command and in each worker, which it kills.
KILLER = """
import os, sys
if sys.argv[0].endswith("default_worker.py"):
    os.kill(os.getpid(), 9)
"""
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


def test_cohort_of_a_killed_worker_resumes_from_its_checkpoint(small_files, tmp_path, nodes, one_process):
    driver = Driver(small_files, tmp_path, *on(nodes, *LONG))
    driver.until("epoch 2,")
    os.kill(nodes.workers()[0], signal.SIGKILL)
    driver.until("its worker died; it resumes from its last checkpoint")
    assert driver.finished(tmp_path) == one_process


def test_sweep_finishes_after_all_workers_are_killed(small_files, tmp_path, nodes, one_process):
    driver = Driver(small_files, tmp_path, *on(nodes, *LONG))
    driver.until("epoch 2,")
    for worker in nodes.workers():
        os.kill(worker, signal.SIGKILL)
    assert driver.finished(tmp_path) == one_process


def test_sweep_finishes_after_two_nodes_are_removed(small_files, tmp_path, nodes, one_process):
    driver = Driver(small_files, tmp_path, *on(nodes, *LONG))
    driver.until("epoch 2,")
    nodes.remove(1)
    driver.until("its node died")
    nodes.remove(2)
    assert driver.finished(tmp_path) == one_process


def test_node_that_joins_during_training_gets_a_cohort(small_files, tmp_path, one_process):
    nodes = Nodes(1)
    try:
        driver = Driver(small_files, tmp_path, *on(nodes, *LONG))
        driver.until("epoch 2,")
        nodes.add()
        assert driver.finished(tmp_path) == one_process
        lines = "".join(driver.lines)
        first, last = lines.index(": done"), lines.index("compiling", lines.index("epoch 2,"))
        assert last < first  # the second began before the first was done
    finally:
        nodes.close()


def test_sweep_finishes_after_the_driver_is_killed_twice(small_files, tmp_path, nodes, one_process):
    for _ in range(2):
        driver = Driver(small_files, tmp_path, *on(nodes, *LONG))
        driver.until("epoch")
        driver.kill()
    assert Driver(small_files, tmp_path, *on(nodes, *LONG)).finished(tmp_path) == one_process


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
    assert sum("resumed from a checkpoint" in line for line in driver.lines) == len(saved)
    assert found == alone(small_files, tmp_path / "here", **settings)


def test_cohort_fails_after_its_workers_died_three_times(small_files, tmp_path, nodes):
    killer = tmp_path / "killer.py"
    killer.write_text(KILLER)
    driver = Driver(small_files, tmp_path / "work", *on(nodes, *WORDS, "--import", str(killer)))
    status, table = driver.ended()
    assert (status, table) == (2, "")
    assert "RuntimeError: its worker died, 3 times without a new checkpoint (and 2 more failed)" in driver.lines[-1]
    # Without the import that kills the workers, the sweep is finished.
    Driver(small_files, tmp_path / "work", *on(nodes, *WORDS)).finished(tmp_path / "work")
    assert len(small_sweep.records(tmp_path / "work")) == 6


def test_imported_extensions_are_available_in_workers(small_files, tmp_path, nodes, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("score.py").write_text(SCORE)
    words = (*WORDS, "--import", "score.py", "--config.training.selection=always")
    found = [
        Driver(small_files, tmp_path / name, *where(*words)).finished(tmp_path / name)
        for name, where in (("here", lambda *words: words), ("ray", lambda *words: on(nodes, *words)))
    ]
    assert found[0] == found[1]


def test_split_cohort_gives_the_results_of_cohorts_of_that_size(small_files, tmp_path, nodes):
    words = ("--seeds", "6", "--grid.optimizer.learning_rate=")
    free_starts = (
        "import sys; from jaxmatch.sweep import chunks; chunks.SECONDS_OF_A_START = 0.0; from jaxmatch.cli import "
        "main; sys.exit(main.command())"
    )
    driver = Driver(small_files, tmp_path / "ray", *on(nodes, *words), program=("-c", free_starts))
    in_parts = driver.finished(tmp_path / "ray")
    assert sum(": done" in line for line in driver.lines) == 3
    words = (*words, "--config.execution.maximum_replicas=2")
    whole = Driver(small_files, tmp_path / "here", *words).finished(tmp_path / "here")
    assert in_parts[0] == whole[0] and len(whole[1]) == 6
    for run, (_, parameters) in whole[1].items():
        assert in_parts[1][run][1] == parameters


def test_tuning_with_halving_on_ray_equals_tuning_without_ray(small_files, tmp_path, nodes):
    words = ("--halving", "--rungs", "1", "--final-seeds", "2", "--grid.optimizer.learning_rate=0.01,0.003,0.03")
    found = []
    for name, where in (("here", ()), ("ray", on(nodes))):
        command = small_sweep.command(small_files, tmp_path / name, *words, *where)
        process = small_sweep.start(["tune", *command[1:]], JAX_PLATFORMS="cpu")
        table, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
        found.append((table, small_sweep.results(tmp_path / name), small_sweep.results(tmp_path / name / "final")))
    assert found[0] == found[1] and len(found[0][2]) == 2


def test_sweep_runs_on_nodes_started_by_ray_start(small_files, tmp_path, one_process):
    """Two nodes are started as a user starts them, and are found by the address of this machine."""
    ray = Path(sys.executable).with_name("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    temporary = Path("/tmp") / f"jm{os.getpid()}"  # the path of a socket must be short
    variables = {**os.environ, "RAY_TMPDIR": str(temporary), "RAY_USAGE_STATS_ENABLED": "0"}
    variables["RAY_AUTH_MODE"] = "disabled"  # otherwise Ray requires a token if this user has one
    size = ("--num-cpus=1", f"--object-store-memory={STORE}", "--disable-usage-stats", "--block")
    head = (ray, "start", "--head", f"--port={port}", "--include-dashboard=false", *size)
    started = []
    try:
        for words in (head, (ray, "start", f"--address=127.0.0.1:{port}", *size)):
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


def test_a_cluster_without_the_package_is_refused(small_files, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['jaxmatch'] = None\n")
    bare = Nodes(1, PYTHONPATH=str(tmp_path))
    try:
        driver = Driver(small_files, tmp_path / "work", *on(bare))
        refused(driver, "cannot import this package (", "install it, with the same versions")
    finally:
        bare.close()
    assert not (tmp_path / "work").exists()


def test_a_cluster_that_requires_a_token(small_files, tmp_path):
    pytest.importorskip("ray._private.authentication", reason="this version of Ray knows no tokens")
    right = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
    guarded = Nodes(1, **right)
    words = on(guarded, *WORDS, "--dry-run")
    try:
        for wrong in ({"RAY_AUTH_MODE": "disabled"}, {**right, "RAY_AUTH_TOKEN": "b" * 64}):
            driver = Driver(small_files, tmp_path / "work", *words, **wrong)
            refused(driver, "requires a token", "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to its token")
        driver = Driver(small_files, tmp_path / "work", *words, **right)
        assert driver.ended() == (0, ""), "".join(driver.lines)
    finally:
        guarded.close()


def test_a_dry_run_shows_the_workers_and_writes_nothing(small_files, tmp_path, nodes):
    driver = Driver(small_files, tmp_path / "work", *on(nodes, *WORDS, "--dry-run"))
    assert driver.ended() == (0, "") and any("trained by 3 workers at once" in line for line in driver.lines)
    assert not (tmp_path / "work").exists()


def test_workers_on_fewer_cores_compute_the_same_bits(small_files, tmp_path):
    """The matrix products are so large that XLA splits them among its threads."""
    settings = {"model.hidden_size": "150", "model.encoder_layers": "2", "training.epochs": "2"}
    words = (*WORDS, *(f"--config.{name}={value}" for name, value in settings.items()))
    nodes = Nodes(2, cores={min(os.sched_getaffinity(0))})
    try:
        _, found = Driver(small_files, tmp_path / "ray", *on(nodes, *words)).finished(tmp_path / "ray")
        assert found == alone(small_files, tmp_path / "here", **settings)[1]
    finally:
        nodes.close()


# Nodes can claim to have GPUs, and Ray believes them. Here the task that measures a GPU is replaced by its result.
MEASURED = """
import sys
from jaxmatch.sweep import on_ray
on_ray.RayEngine._measure_worker = lambda engine: (on_ray.worker.WorkerDevice("gpu", "none", 2**30), 1e9)
{more}
from jaxmatch.cli import main
sys.exit(main.command())
"""


def test_tasks_use_gpus_and_gpus_invisible_to_jax_are_refused(small_files, tmp_path, one_process):
    nodes = Nodes(2, gpus=1)
    try:
        unseen = Driver(small_files, tmp_path / "unseen", *on(nodes, *LONG))
        refused(unseen, "the nodes of the Ray cluster have GPUs that JAX does not see there; install jaxmatch[cuda12]")
        assert not (tmp_path / "unseen").exists()
        # JAX seems to see the GPU of the node that was measured, but not the GPU of another node.
        blind = Driver(small_files, tmp_path / "blind", *on(nodes, *LONG), program=("-c", MEASURED.format(more="")))
        assert blind.ended()[0] == 2 and "JAX finds no gpu on the node " in blind.lines[-1], blind.lines
        seeing = MEASURED.format(more="on_ray.RayEngine._platform = 'cpu'")
        driver = Driver(small_files, tmp_path / "work", *on(nodes, *LONG), program=("-c", seeing))
        driver.until("memory is an estimate")
        driver.until("trained by 2 workers at once")
        assert driver.finished(tmp_path / "work") == one_process
    finally:
        nodes.close()
