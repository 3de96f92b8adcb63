"""A sweep on a local Ray cluster of three nodes gives the records of one process, even if processes die."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import s3_server
import small_sweep
from ray_driver import LONG, Driver, on, refused
from ray_nodes import Nodes

from jaxmatch.cli.main import main
from jaxmatch.sweep import on_ray, ray_cluster
from jaxmatch.sweep.on_ray import RayEngine

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxmatch[ray]'")


@pytest.fixture(scope="module")
def bucket():
    """A local S3 server that the nodes can reach, too."""
    with s3_server.serving():
        yield f"s3://{s3_server.BUCKET}"


@pytest.fixture(scope="module")
def nodes(bucket, tmp_path_factory):
    cluster = Nodes(3, NODE_FOLDERS=str(tmp_path_factory.mktemp("nodes")))
    assert cluster.address
    yield cluster
    cluster.close()


@pytest.mark.clusters
def test_records_equal_one_process_after_node_worker_and_driver_die(small_files, tmp_path, nodes, one_process):
    first = Driver(small_files, tmp_path, *on(nodes, *LONG))
    first.until("epoch 2,")
    nodes.remove(2)
    first.until("its node died; it resumes from its last checkpoint")
    os.kill(nodes.workers()[0], signal.SIGKILL)
    first.until("its worker died; it resumes from its last checkpoint")
    first.until("epoch")
    first.kill()
    assert len(small_sweep.records(tmp_path)) < 6

    second = Driver(small_files, tmp_path, *on(nodes, *LONG))
    assert second.finished(tmp_path) == one_process and len(one_process[1]) == 6
    assert "resumed from a checkpoint" in "".join(second.lines)
    assert not list(tmp_path.glob("cohorts/*/error.json")) and not list(tmp_path.glob(".reached-*"))


@pytest.mark.clusters
def test_an_object_store_replaces_the_shared_folder(small_files, tmp_path, nodes, bucket):
    work, here = tmp_path / "work", tmp_path / "here"
    table, found = Driver(small_files, work, *on(nodes, "--store", f"{bucket}/small")).finished(work)
    assert table == small_sweep.launched(small_files, here)[0] and found == small_sweep.results(here)
    assert not list(tmp_path.glob("*/cohorts/*/events.jsonl"))


@pytest.mark.clusters
def test_workers_that_cannot_train_are_refused_before_anything_is_written(small_files, tmp_path, nodes):
    """They have another version, do not reach the folder, or do not reach the store."""
    patched = (
        "import sys; from jaxmatch.sweep import several_hosts; several_hosts.versions = lambda: {'jaxmatch': '9.9', "
        "'jax': '0.1'};"
        "from jaxmatch.cli import main; sys.exit(main.command())"
    )
    versions = Driver(small_files, tmp_path / "a" / "b", *on(nodes), program=("-c", patched))
    refused(
        versions, "the workers on ", " run jaxmatch 0.", "(here 9.9), jax 0.", "(here 0.1); install the same versions"
    )
    # In another process, /proc/self/cwd is another folder.
    folder = Driver(small_files, Path("/proc/self/cwd") / "not-reached", *on(nodes))
    refused(
        folder, "not-reached: the workers on ", "do not reach this folder; give a --workdir on a file system that all"
    )
    # The memory of another process is another store.
    store = Driver(small_files, tmp_path / "a", *on(nodes, "--store", "memory://some"))
    refused(store, "the workers on ", " cannot use --store: the store cannot be reached (it does not return what was")
    assert not (tmp_path / "a").exists() and not Path("not-reached").exists()


@pytest.fixture
def no_ray(monkeypatch, tmp_path):
    """Neither this machine nor the environment has the address of a cluster."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "ray"), "no Ray runs on this machine; start one with ray start --head, or give --on ray:HOST:PORT"),
        (("--on", "ray:127.0.0.1:1"), "no answer from Ray at 127.0.0.1:1 ("),
        (
            ("--on", "ray:ray://head:1"),
            "ray://head:1 is not an address of a Ray cluster; give --on ray:HOST:PORT of its head",
        ),
        (
            ("--on", "ray:somewhere"),
            "somewhere is not an address of a Ray cluster; give --on ray:HOST:PORT of its head",
        ),
        (
            ("--on", "ray", "--store", "runs/some"),
            "'runs/some' is not a URL of an object store; give --store as s3://BUCKET",
        ),
        (("--on", "slurm", "--store", "s3://bucket"), "--store needs --on ray"),
        (("--store", "s3://bucket"), "--store needs --on ray"),
        (("--on", "rai"), "cohorts cannot be trained on 'rai'; did you mean \"ray\"?"),
        (("--on", "ray", "--distributed"), "--on and --distributed cannot be combined; give one"),
    ],
)
@pytest.mark.parametrize("command", ["sweep", "train", "tune"])
def test_invalid_options_are_reported_in_one_line(small_files, tmp_path, capsys, no_ray, command, words, message):
    file, *options = small_sweep.command(small_files, tmp_path / "runs", *words)[1:]
    assert main([command, "re2_own" if command == "train" else file, *options]) == 2
    output, errors = capsys.readouterr()
    assert not output and errors.startswith(f"jaxmatch: {message}") and errors.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_cluster_without_nodes_is_reported_once(tmp_path, monkeypatch):
    fake = SimpleNamespace(
        remote=lambda **options: lambda function: SimpleNamespace(remote=lambda *arguments: "measurement"),
        wait=lambda tasks, timeout: (tasks, []),
        get=lambda task: ("cpu", "cpu", 2**30, 1e9),
        exceptions=SimpleNamespace(RayError=RuntimeError),
    )
    node = {"Resources": {"CPU": 2}}
    looks = iter([[node], [node], [], [], []])
    monkeypatch.setattr(ray_cluster, "connect", lambda address: fake)
    monkeypatch.setattr(ray_cluster, "check_workers", lambda *arguments: None)
    monkeypatch.setattr(ray_cluster, "nodes", lambda ray: next(looks))
    monkeypatch.setattr(on_ray, "SECONDS_BETWEEN_POLLS", 0.0)
    engine, lines = RayEngine(), []
    engine.begin(tmp_path, "sweep")
    with pytest.raises(StopIteration):  # at the last look at the nodes
        engine.run([SimpleNamespace(duration=1.0)], SimpleNamespace(display=SimpleNamespace(say=lines.append)))
    assert lines == ["no node of the Ray cluster can train a cohort now; waiting for one"]


@pytest.fixture
def silent_host():
    """The address of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_does_not_reply_is_refused(small_files, tmp_path, capsys, monkeypatch, silent_host):
    monkeypatch.setattr("jaxmatch.sweep.ray_cluster.SECONDS_FOR_HEALTH", 2.0)
    assert main(small_sweep.command(small_files, tmp_path / "runs", "--on", f"ray:{silent_host}")) == 2
    message = f"jaxmatch: {silent_host} does not answer as Ray within 2 seconds; see ray status there, and try again\n"
    assert capsys.readouterr().err == message


def test_a_server_that_fails_the_ray_health_check_is_refused(small_files, tmp_path, capsys, monkeypatch, silent_host):
    def refuses(words, **options):
        raise subprocess.CalledProcessError(1, words)

    monkeypatch.setattr("jaxmatch.sweep.ray_cluster.subprocess.run", refuses)
    assert main(small_sweep.command(small_files, tmp_path / "runs", "--on", f"ray:{silent_host}")) == 2
    message = f"jaxmatch: {silent_host} answers, but is not Ray or is too busy; start it with ray start --head"
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("auto", "no Ray runs on this machine; start one with ray start --head"),
        (
            "http://127.0.0.1:8265",
            "RAY_ADDRESS=http://127.0.0.1:8265 is not an address of a Ray cluster; unset it, or give",
        ),
    ],
)
def test_bad_ray_address_is_refused_or_overridden(small_files, tmp_path, capsys, no_ray, monkeypatch, address, message):
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert main(small_sweep.command(small_files, tmp_path / "runs", "--on", "ray")) == 2
    assert capsys.readouterr().err.startswith(f"jaxmatch: {message}")
    # The address in the command takes precedence.
    assert main(small_sweep.command(small_files, tmp_path / "runs", "--on", "ray:127.0.0.1:1")) == 2
    assert capsys.readouterr().err.startswith("jaxmatch: no answer from Ray at 127.0.0.1:1 (")


def test_missing_ray_is_reported_with_an_install_command(small_files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(small_sweep.command(small_files, tmp_path / "runs", "--on", "ray")) == 2
    message = "jaxmatch: --on ray needs Ray, which is not installed; pip install 'jaxmatch[ray]'\n"
    assert capsys.readouterr().err == message
