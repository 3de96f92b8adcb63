"""The division of a sweep's time, its row in the table, and a run at a tiny size."""

import pytest

from benchmarks.item import Settings
from benchmarks.items import ITEMS, sweep


def measured_launch(**changed):
    parts = {
        "data": 1.0,
        "plan": 0.5,
        "compile": 5.0,
        "train": 10.0,
        "evaluate": 0.7,
        "checkpoint": 0.2,
        "models": 0.1,
        "tables": 0.1,
        "other": 0.4,
    }
    plain = dict(
        parts=parts,
        import_seconds=2.0,
        process_seconds=20.0,
        cpu_seconds=30.0,
        runs=2,
        signatures=1,
        executables=3,
        shapes=3,
        compiled=9,
    )
    return {**plain, **changed}


@pytest.mark.parametrize(("evaluate", "met"), [(0.7, "yes"), (0.9, "no")])
def test_evaluation_and_checkpoint_share_of_training_time_decides_the_goal(evaluate, met):
    row = sweep.launch_row("x", measured_launch(parts={**measured_launch()["parts"], "evaluate": evaluate}))
    assert row["share"] == pytest.approx((evaluate + 0.2) / 10) and row["met"] == met
    assert row["import"] == 2.0 and row["programs"] == "3 of 3, 1 signatures"


def test_a_launch_that_trains_nothing_has_no_share():
    row = sweep.launch_row("x", measured_launch(parts={"data": 1.0, "other": 0.1}))
    assert row["share"] == row["met"] == "" and row["train"] == 0.0


@pytest.mark.parametrize(("evaluate_every", "evaluations"), [(0, 1), (5_000, 20)])
def test_epoch_share_is_extrapolated_from_measured_steps(evaluate_every, evaluations):
    measured = dict(
        pairs=1_000,
        step_seconds=3.0,
        evaluate_seconds=2.0,
        checkpoint_seconds=0.5,
        checkpoint_every=60.0,
        evaluate_every=evaluate_every,
    )
    assert sweep.epoch_share(measured, 100_000) == {"train": 300.0, "evaluate": 2.0 * evaluations, "checkpoint": 2.5}


def test_the_grid_has_nine_programs():
    axes = sweep.launches(quick=False)["9 programs"]["grid"]
    assert len(axes["model.blocks"].split(",")) * len(axes["model.encoder_layers"].split(",")) == 9


@pytest.mark.slow
def test_benchmark_runs_and_its_second_launch_compiles_nothing(tmp_path):
    settings = Settings(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)
    (first, again, on_record), _ = ITEMS["sweep"].run(settings)
    for row in (first, again, on_record):
        assert {column.key for column in ITEMS["sweep"].columns} <= set(row)
        assert sum(row[part] for part in sweep.PARTS) == pytest.approx(row["seconds"], rel=0.3)
    assert first["programs"] == again["programs"] == "1 of 1, 1 signatures"
    assert first["compiled"] > 0 and again["compiled"] == 0
    assert on_record["train"] == 0.0 and on_record["runs"] == 2
