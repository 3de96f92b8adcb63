"""Network options, ids and golden files that the tests of the authors' two programs share."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxmatch.errors import InputError

CHOICES = {
    "alignment": ("linear", "identity"),
    "fusion": ("full", "simple"),
    "connection": ("aug", "residual", "none"),
    "prediction": ("full", "symmetric", "simple"),
}
SIZES = {"hidden_size": 4, "embedding_dim": 5, "num_classes": 3, "num_vocab": 12}
IDS_A = np.array([[3, 4, 5, 6, 11], [7, 8, 0, 0, 0], [1, 0, 0, 0, 0]], np.int32)
IDS_B = np.array([[9, 3, 0, 0, 0], [2, 8, 7, 10, 0], [4, 5, 6, 8, 9]], np.int32)


def load(path: Path, prefix: str) -> tuple:
    """Reads a golden file: weights whose names begin with `prefix`, the settings, both sides' ids, and the logits."""
    with np.load(path, allow_pickle=False) as file:
        weights = {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}
        return weights, json.loads(str(file["settings"])), file["ids_a"], file["ids_b"], file["logits"]


def assert_close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


def assert_misfits_are_errors(convert, arrays, settings, name):
    """Checks that a network without the array `name`, with one more, or with other settings is refused."""
    with pytest.raises(InputError, match=f"the network lacks {name}"):
        convert({key: value for key, value in arrays.items() if key != name}, settings)
    with pytest.raises(InputError, match="the network has more.weight"):
        convert({**arrays, "more.weight": np.zeros(3)}, settings)
    with pytest.raises(InputError, match="lack hidden_size"):
        convert(arrays, {key: value for key, value in settings.items() if key != "hidden_size"})
    with pytest.raises(InputError, match="has shape .*4.*, not .*5"):
        convert(arrays, {**settings, "hidden_size": 5})
    with pytest.raises(InputError, match="connection is 'augmented'"):
        convert(arrays, {**settings, "connection": "augmented"})
