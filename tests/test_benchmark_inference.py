import pytest

from benchmarks.items import inference, matching
from jaxmatch.inference.cpu import predictor


@pytest.mark.slow
def test_inference_runs(quick, monkeypatch):
    monkeypatch.setattr(inference, "BLOCKS", (1,))
    programs, make = [], predictor.PreparedProgram
    monkeypatch.setattr(predictor, "PreparedProgram", lambda *parts: programs.append(make(*parts)) or programs[-1])
    rows, notes = inference.run(quick)
    (row,) = rows
    assert all(0 < row[name]["median"] for name in ("ours", "computed", "plain"))
    assert [program.table is None for program in programs] == [False, True, False]  # ours, computed, ours for the note
    assert any("products of the 10,000 words' vectors" in note for note in notes)
    assert "peer" not in row


@pytest.mark.slow
def test_matching_runs(quick):
    rows, notes = matching.run(quick)
    (row,) = rows
    assert row["what"] == "embedded_inference test, 50 pairs"
    assert row["ours"]["median"] > 0
    assert row["tokenising"]["median"] > 0  # timed separately, so on a busy machine it may exceed the whole
    assert any("first call" in note for note in notes)
