"""Tuning on a Ray cluster of two nodes on this machine: asynchronous halving (ASHA) and trials of Optuna."""

import json
import re

import pytest
import small_sweep
from ray_driver import Driver, on
from ray_nodes import Nodes

from jaxmatch.sweep.asha import Ladder
from jaxmatch.sweep.halving import Standing

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxmatch[ray]'")
RUNGS, EPOCHS = (1, 3), 4
WORDS = (
    *("--asha", "--eta=2", "--rungs=1,3", "--seeds=2", "--final-seeds=1", f"--epochs={EPOCHS}"),
    "--grid.optimizer.learning_rate=0.03,1e30,0.00003,0.003",
)


@pytest.fixture(scope="module")
def nodes():
    cluster = Nodes(2)
    yield cluster
    cluster.close()


@pytest.mark.slow
def test_asha_on_two_workers_agrees_with_its_recorded_arrivals(small_files, tmp_path, nodes):
    driver = Driver(small_files, tmp_path, *on(nodes, *WORDS), command="tune")
    check_agreement(tmp_path, *driver.ended(), driver.lines)


@pytest.mark.clusters
def test_killed_driver_resumes_with_the_same_arrivals(small_files, tmp_path, nodes):
    first = Driver(small_files, tmp_path, *on(nodes, *WORDS), command="tune")
    first.until("continues after epoch 1")
    first.kill()
    before = [json.loads(line) for line in (tmp_path / "arrivals.jsonl").read_text().splitlines()]
    assert len(before) >= 2
    second = Driver(small_files, tmp_path, *on(nodes, *WORDS), command="tune")
    assert check_agreement(tmp_path, *second.ended(), second.lines)[: len(before)] == before


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


def check_agreement(workdir, status, table, lines):
    """Checks that the records, the tables and the arrivals of a successful command agree, and returns the arrivals."""
    assert status == 0, "".join(lines)
    arrivals = [json.loads(line) for line in (workdir / "arrivals.jsonl").read_text().splitlines()]
    records = small_sweep.records(workdir)
    ladder = Ladder({name.rpartition("-seed")[0] for name in records}, len(RUNGS), 2, "accuracy")
    for setting, rung, standings in arrivals:
        ladder.arrive(setting, rung, [Standing(*each) for each in standings])
    assert ladder.complete() and len(records) == 8
    dropped = {name: RUNGS[rung] for name, rung in ladder.dropped().items()}
    for name, record in records.items():
        after = dropped.get(name.rpartition("-seed")[0])
        if record["status"] == "diverged":
            assert after is not None
        else:
            assert record["status"] == ("finished" if after is None else "dropped")
            assert len(record["curve"]) == (after or EPOCHS)
    cohorts = [json.loads(file.read_text())["runs"] for file in workdir.glob("cohorts/*/cohort.json")]
    assert sorted(len({run.rpartition("-seed")[0] for run in runs}) for runs in cohorts) == [1] * len(cohorts)
    (final,) = small_sweep.records(workdir / "final").values()
    assert final["seed"] == 2 and re.search(r"among 4 settings, .* dropped by successive halving", table)
    return arrivals
