import importlib.util
import sys

import pytest

from benchmarks import memory_worker, reports
from benchmarks.item import Settings
from benchmarks.items import memory

ANSWER = {
    "needs": {"step": 60 * 2**20, "parameters": 10 * 2**20, "most": None},
    "live": 0,
    "shared": 2**30,
    "compiled": 180 * 2**20,
    "measured": 220 * 2**20,
    "limit": 8 * 2**30,
    "device": "cpu",
}


def test_table_row_is_computed_from_the_measurements():
    row = memory.row_of(ANSWER, replicas=2)
    assert (row["estimate"], row["measured"], row["replica"]) == (200, 220, 110)
    assert row["ratio"] == pytest.approx(1.1)
    assert row["planned"] == 57  # 0.7 of 8192 MiB at 100 MiB
    assert row["fit"] == 65  # (8192 - 1024) / 110
    # If the system reports no memory, the figure of the compiled program is used.
    row = memory.row_of({**ANSWER, "measured": None}, replicas=2)
    assert row["measured"] is None and row["replica"] == 90
    row = memory.row_of({**ANSWER, "measured": None, "compiled": None}, replicas=2)
    assert "ratio" not in row and row["planned"] == 57


def test_random_pairs_have_the_requested_length():
    data = memory_worker.pairs_of(9, 5, words=10, dimensions=4, classes=3)
    train = data.splits["train"]
    assert train.lengths.tolist() == [9] * 5
    assert data.vectors.shape == (10, 4)
    assert train.tokens_a.min() >= 2 and len(data.labels) == 3


def results(folder):
    rows = [
        {"grows": grows, "replicas": runs, "batch": 64, "length": 24, **memory.row_of(ANSWER, runs)}
        for grows, runs in (("", 1), ("runs", 2), ("runs", 4))
    ]
    reports.write_result(folder, reports.result_of("memory", memory.ITEM, rows, [], "command"))
    return {"memory": memory.ITEM}


def test_missing_matplotlib_is_reported_with_an_install_command(tmp_path, monkeypatch):
    items = results(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install" in reports.write_figures(tmp_path, items)
    assert not list(tmp_path.glob("*/*.png"))


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="draws with matplotlib")
def test_figure_is_drawn_from_the_result_and_is_reproducible(tmp_path):
    items = results(tmp_path)
    assert reports.write_figures(tmp_path, items) == ""
    (picture,) = tmp_path.glob("*/memory.svg")
    before = picture.read_bytes()
    assert before.startswith(b"<?xml") and picture.with_suffix(".png").stat().st_size > 1000
    reports.write_figures(tmp_path, items)
    assert picture.read_bytes() == before
    axes = memory.figure([{"grows": "", "replicas": 1, "batch": 64, "length": 24, **memory.row_of(ANSWER, 1)}]).axes
    assert [line.get_label() for line in axes[0].get_lines()] == ["measured", "compiled", "estimate"]
    assert axes[0].get_lines()[0].get_ydata() == pytest.approx([220 / 1024])


@pytest.mark.slow
def test_memory_benchmark_runs_in_quick_mode(tmp_path):
    settings = Settings(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)
    (row,), notes = memory.run(settings)
    # Both measurements of the used memory include the arrays that stay.
    assert row["compiled"] is None or row["compiled"] > 1
    assert row["ratio"] > 0.5
    assert any("plan estimates" in note for note in notes)
