"""Tests of `make clusters` on Ray nodes that share no folder, only a local S3."""

import os
import shutil
import signal
import threading
import time

import pytest
import s3_server
from ray_driver import LONG, Driver, on, refused
from ray_nodes import Nodes

from jaxmatch.store import Store

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxmatch[ray]'")
pytestmark = pytest.mark.clusters


@pytest.fixture
def bucket():
    with s3_server.serving():
        yield f"s3://{s3_server.BUCKET}"


@pytest.fixture
def nodes(bucket, tmp_path):
    (tmp_path / "nodes").mkdir()
    cluster = Nodes(3, NODE_FOLDERS=str(tmp_path / "nodes"))
    yield cluster
    cluster.close()


def wait_for_checkpoints(store, count=1):
    """Waits until the store has checkpoints of at least `count` cohorts."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        cohorts = store.names("cohorts")
        if (
            sum(any(name.startswith("checkpoint") for name in store.names(f"cohorts/{each}")) for each in cohorts)
            >= count
        ):
            return
        time.sleep(0.1)
    pytest.fail("no checkpoint was uploaded")


def test_sweep_survives_killed_workers_nodes_and_commands(small_files, tmp_path, nodes, bucket, one_process):
    words, store = on(nodes, *LONG, "--store", f"{bucket}/small"), Store(f"{bucket}/small")
    first = Driver(small_files, tmp_path / "first", *words)
    first.until("epoch 2,")
    wait_for_checkpoints(store, 3)
    nodes.remove(2)
    first.until("its node died; it resumes from its last checkpoint")
    # The other nodes must not need the folder of this node.
    shutil.rmtree(tmp_path / "nodes" / "2")
    os.kill(nodes.workers()[0], signal.SIGKILL)
    first.until("its worker died; it resumes from its last checkpoint")
    first.until("resumed from a checkpoint")
    first.kill()
    shutil.rmtree(tmp_path / "first")
    for folder in (tmp_path / "nodes").glob("*/jaxmatch-store-*"):
        shutil.rmtree(folder, ignore_errors=True)  # Ray ends the workers of a dead command within a second

    second = Driver(small_files, tmp_path / "second", *words)
    assert second.finished(tmp_path / "second") == one_process
    assert "resumed from a checkpoint" in "".join(second.lines)
    assert "lease" not in store.names("")


def test_a_second_command_is_refused(small_files, tmp_path, nodes, bucket):
    words = on(nodes, *LONG, "--store", f"{bucket}/small")
    first = Driver(small_files, tmp_path / "first", *words)
    first.until("epoch 1,")
    second = Driver(small_files, tmp_path / "second", *words)
    second.until("waiting to see whether another command still uses")
    second.lines.clear()
    refused(second, f"{bucket}/small: process {first.process.pid} on ", "trains with this store; wait for it")
    assert not (tmp_path / "second").exists()
    first.kill()


def test_sweep_survives_a_temporarily_unavailable_store(small_files, tmp_path, nodes, bucket, one_process):
    """Requests fail for some seconds and are retried."""
    from moto.s3.responses import S3Response

    driver = Driver(small_files, tmp_path / "work", *on(nodes, *LONG, "--store", f"{bucket}/small"))
    driver.until("epoch 2,")
    original, unavailable = S3Response.ambiguous_response, threading.Event()
    unavailable.set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            S3Response,
            "ambiguous_response",
            lambda *arguments, **options: (503, {}, "") if unavailable.is_set() else original(*arguments, **options),
        )
        time.sleep(6)
        unavailable.clear()
    assert driver.finished(tmp_path / "work") == one_process
