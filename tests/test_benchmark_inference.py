import jax
import numpy as np
import pytest

from benchmarks.items import inference, matching
from benchmarks.random_model import random_model
from benchmarks.settings import Settings


@pytest.fixture
def quick(tmp_path):
    return Settings(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)


def test_a_random_model_answers():
    model = random_model(
        {"blocks": 1, "encoder_layers": 1, "hidden_size": 8}, vectors=np.ones((9, 4), np.float32), outputs=3
    )
    ids = np.array([[2, 3, 0], [4, 0, 0]], np.int32)
    assert model.logits(ids, ids[::-1]).shape == (2, 3)
    _, parameters = model.folded
    names = {path[-1].key for path, _ in jax.tree_util.tree_leaves_with_path(parameters)}
    assert not names & {"direction", "gain"}


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
    assert 0 < row["tokenising"]["median"] < 1
    assert any("first call" in note for note in notes)
