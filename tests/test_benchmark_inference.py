import pytest

from benchmarks.items import inference, matching


@pytest.mark.slow
def test_inference_runs(quick, monkeypatch):
    monkeypatch.setattr(inference, "BLOCKS", (1,))
    rows, notes = inference.run(quick)
    (row,) = rows
    assert 0 < row["ours"]["median"] and 0 < row["plain"]["median"]
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
