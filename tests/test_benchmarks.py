"""The benchmarks run with tiny sizes, store what they measure, and compare with a fake checkout of the peer."""

import dataclasses
import json
import sys

import jax
import numpy as np
import pytest
from fake_peer import checkout

from benchmarks import __main__ as command
from benchmarks import device, reports
from benchmarks.accelerators import __main__ as accelerators
from benchmarks.accelerators import hlo
from benchmarks.count_compilations import count_compilations
from benchmarks.item import Settings
from benchmarks.items import ITEMS, first_table, replicas
from benchmarks.peer import Peer


@pytest.fixture
def settings(tmp_path):
    return Settings("", "", checkout(tmp_path / "peer"), sys.executable, 1, True, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["training", "replicas", "inference", "paper"])
def test_quick_sizes_give_a_row_with_every_column(name, settings, few_pairs):
    rows, notes = ITEMS[name].run(settings)
    assert rows and notes
    text = "\n".join(reports.table_lines(rows[-1:], ITEMS[name].columns))
    assert reports.NOT_MEASURED not in text
    if name == "training":
        for row in rows:
            assert row["ratio"]["median"] == pytest.approx(row["ours"]["median"] / row["peer"]["median"])
            assert row["sorted"]["median"] > row["peer"]["median"]


def test_first_table_reports_a_row_for_each_launch(settings, monkeypatch):
    found = first_table.Launch(seconds=1.0, programs=1, loaded=0, others=2, compile_seconds=0.5)
    before = dataclasses.replace(found, seconds=4.0, programs=8)
    monkeypatch.setattr(first_table, "launch", lambda words, folder, *checkout: before if checkout else found)
    rows, _ = first_table.run(settings)
    assert [row["goal"] for row in rows if "seed more" in row["what"]] == ["0 programs compiled: missed"]
    lines = (settings.scratch / "first_table" / "own" / "train.tsv").read_text().splitlines()
    assert len(lines) == 1 + first_table.QUICK_PAIRS and all(line.count("\t") == 2 for line in lines)
    earlier = dataclasses.replace(settings, before=str(first_table.ROOT))
    rows, notes = first_table.run_nine_programs(earlier)
    assert [(row["before_programs"], row["ratio"], row["goal"]) for row in rows] == [
        (8, 0.25, ""),
        (8, 0.25, "0 programs compiled: missed"),
    ]
    assert any(note.startswith("Before: commit ") for note in notes)


def test_compilations_are_counted_by_their_functions(tmp_path, monkeypatch):
    def train_step(values):
        return values + 1

    monkeypatch.setattr("jaxmatch.cli.main.main", lambda words: int(jax.jit(train_step)(np.zeros(3)).sum()))
    assert count_compilations(tmp_path / "counts.json", ["sweep"]) == 3
    (found,) = (each for each in json.loads((tmp_path / "counts.json").read_text()) if "train_step" in each["function"])
    assert found["seconds"] > 0


@pytest.mark.slow
def test_device_measurements_run_on_a_cpu(capsys):
    assert device.main(["--quick", "parity", "steps"]) == 0
    printed = capsys.readouterr().out
    assert printed.count(": met |") == 2 and "| re2 | 2 | 16 | float32 |" in printed


def test_goals_on_an_accelerator_are_not_those_of_products_that_the_peer_lacks(monkeypatch):
    monkeypatch.setattr(replicas.jax, "default_backend", lambda: "gpu")
    measured = {key: {"median": value} for key, value in (("sorted", 9.0), ("peer", 90.0), ("share", 0.36))}
    assert replicas.goals(10, 512, measured) == "sorted peer ≥ 10: missed; ceiling ≥ 35%: met"
    assert replicas.goals(10, 512, measured, "bfloat16") == "ceiling ≥ 35%: met"


@pytest.mark.parametrize(("ours", "tf32"), [("float32", False), ("TF32", True), ("bfloat16", False)])
def test_peer_uses_our_precision_of_matrix_products(monkeypatch, tmp_path, ours, tf32):
    """By default PyTorch uses TF32 in convolutions alone."""
    monkeypatch.setattr("benchmarks.peer.ceiling.default_products", lambda: ours)
    with Peer(checkout(tmp_path), sys.executable) as started:
        assert started.build({})["tf32"] == [tf32, tf32]


def test_committed_pages_follow_from_their_records():
    assert (reports.RESULTS / "README.md").read_text() == command.tables_of(reports.RESULTS)
    figures = json.loads((accelerators.RESULTS / "figures.json").read_text())
    assert (accelerators.RESULTS / "README.md").read_text() == accelerators.page(figures.values())


def test_kernels_in_a_loop_count_once_for_each_iteration():
    text = """
%body (p: (f32[8,4])) -> (f32[8,4]) {
  %p = (f32[8,4]{1,0}) parameter(0)
  %x = f32[8,4]{1,0} get-tuple-element(%p), index=0
  %y = f32[8,4]{1,0} add(%x, %x)
  ROOT %t = (f32[8,4]{1,0}) tuple(%y)
}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %a = f32[8,4]{1,0} parameter(0)
  %b = f32[8,4]{1,0} negate(%a)
  %c = (f32[8,4]{1,0}) tuple(%b)
  %w = (f32[8,4]{1,0}) while(%c), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %r = f32[8,4]{1,0} get-tuple-element(%w), index=0
}
"""
    work = hlo.work(text)
    assert (work.kernels, work.in_loops) == (6, 5)
    assert work.moved == 128 * (2 + 5 * 3)
