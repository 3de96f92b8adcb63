import importlib.util
import sys

import numpy as np
import pytest

from benchmarks.item import Settings
from benchmarks.items import lstm


def settings(folder, python):
    return Settings(data_directory="", vectors="", peer="", peer_python=python, rounds=1, quick=True, scratch=folder)


def test_sentences_are_cut_out_of_their_rows():
    given = lstm.case(3, 2, (10, 50))
    firsts = (given.sentences == 1).sum(axis=1)
    assert given.lengths.tolist() == [length for first in firsts for length in (first, lstm.ROW - first)]
    cut = given.by_sentence(given.inputs)
    assert cut.shape == (6, given.lengths.max(), lstm.INPUTS)
    for pair, first in enumerate(firsts):
        np.testing.assert_array_equal(cut[2 * pair, :first], given.inputs[pair, :first])
        np.testing.assert_array_equal(cut[2 * pair + 1, : lstm.ROW - first], given.inputs[pair, first:])
        assert not cut[2 * pair, first:].any() and not cut[2 * pair + 1, lstm.ROW - first :].any()


def test_difference_detects_one_wrong_value():
    given = lstm.case(2, 2, lstm.DRAWN)
    random = np.random.default_rng(0)
    of_inputs, states = random.normal(size=(2, lstm.ROW, 3)), random.normal(size=(2, lstm.ROW, 4))
    of_kernel = random.normal(size=(2, 2, 4, 2))
    ours = ({"recurrent_kernel": of_kernel}, of_inputs), states
    theirs = {
        "states": given.by_sentence(states),
        "inputs": given.by_sentence(of_inputs),
        "recurrent_kernel": of_kernel.reshape(2, 2, 8),
    }
    assert lstm.difference(given, ours, theirs) == 0
    for name, values in theirs.items():
        wrong = values.copy()
        wrong.flat[0] += 0.5 * np.abs(values).max()
        assert lstm.difference(given, ours, {**theirs, name: wrong}) > lstm.TOLERANCES["float32"]


def test_without_torch_only_ours_is_measured(tmp_path):
    rows, notes = lstm.run(settings(tmp_path, str(tmp_path / "no-python")))
    assert [row["work"] for row in rows] == ["forward", "forward and backward"] * 2
    assert [row["tokens"] for row in rows] == ["30", "30", "10 to 50", "10 to 50"]
    assert all(row["ours"]["median"] > 0 and "torch" not in row and "ratio" not in row for row in rows)
    assert "not measured; python -m benchmarks lstm --peer-python" in notes[-1]


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="compares with torch.nn.LSTM")
def test_torch_gives_the_same_states_and_gradients(tmp_path):
    rows, notes = lstm.run(settings(tmp_path, sys.executable))
    assert all(row["ratio"]["median"] == pytest.approx(row["ours"]["median"] / row["torch"]["median"]) for row in rows)
    assert "differ from ours by" in notes[-1]
