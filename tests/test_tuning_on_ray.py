"""Tuning on a Ray cluster of two nodes on this machine: trials of Optuna."""

import pytest
import small_sweep
from ray_driver import Driver, on
from ray_nodes import Nodes

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxmatch[ray]'")


@pytest.fixture(scope="module")
def nodes():
    cluster = Nodes(2)
    yield cluster
    cluster.close()


@pytest.mark.clusters
def test_optuna_trials_on_ray_equal_those_of_one_process(small_files, tmp_path, nodes):
    words = ("--optuna=4", "--trials-at-once=2", "--seeds=2", "--final-seeds=1", "--epochs=1")
    words += ("--space.optimizer.learning_rate=log:1e-3:1e-1", "--space.model.encoder_layers=1:2")
    found = []
    for name, where in (("here", words), ("ray", on(nodes, *words))):
        status, table = (driver := Driver(small_files, tmp_path / name, *where, command="tune")).ended()
        assert status == 0, "".join(driver.lines)
        found.append((table, small_sweep.records(tmp_path / name).keys()))
    assert found[0] == found[1] and len(found[0][1]) == 8
