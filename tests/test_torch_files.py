"""Files in the layouts of `torch.save`: what is read from them, and how damaged files are reported."""

import argparse
import io
import pickle
import sys
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
import torch_format
from refusals import refused
from torch_format import Storage, Tensor

from jaxmatch.errors import InputError
from jaxmatch.inference.interop import torch_files

LAYOUTS = [torch_format.zip_layout, torch_format.legacy_layout]
GRID = np.arange(6, dtype=np.float32).reshape(2, 3)


def read(tmp_path, content):
    (tmp_path / "best.pt").write_bytes(content)
    return torch_files.load(tmp_path / "best.pt")


def problem(tmp_path, content):
    return str(refused(read, tmp_path, content, match="best.pt: this file of PyTorch cannot be read"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_saved_tensors_and_objects_are_read_back(tmp_path, layout):
    shared = Storage(GRID)
    saved = {
        "whole": Tensor(shared, 0, (2, 3), (3, 1)),
        "row": Tensor(shared, 3, (3,), (1,)),
        "turned": Tensor(shared, 0, (3, 2), (1, 3)),
        "half": Tensor.of(GRID.astype(np.float16)),
        "brain": Tensor.of(GRID.astype(jnp.bfloat16)),
        "long": Tensor.of(np.array([1 << 40])),
        "one": Tensor(Storage(np.float32([2.5])), 0, (), ()),
        "none": Tensor(Storage(np.zeros(0, np.float32)), 0, (0, 3), (3, 1)),
        "args": argparse.Namespace(blocks=2, kernel_sizes=[3], name="ä"),
        "score": np.float64(0.5),
        "plain": (1, 2.5, None, [True]),
    }
    found = read(tmp_path, layout(saved))
    assert found.keys() == saved.keys() and found["args"] == saved["args"] and found["plain"] == saved["plain"]
    expected = {
        "whole": GRID,
        "row": GRID[1],
        "turned": GRID.T,
        "half": GRID.astype(np.float16),
        "brain": GRID.astype(jnp.bfloat16),
        "long": np.array([1 << 40]),
        "one": np.float32(2.5),
        "none": np.zeros((0, 3), np.float32),
    }
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape
        np.testing.assert_array_equal(found[name], value)
    assert "torch" not in sys.modules


def test_big_endian_storages_are_read(tmp_path):
    assert read(tmp_path, torch_format.zip_layout([Tensor.of(GRID)], order="big"))[0].tolist() == GRID.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pickled_calls_are_refused_and_not_executed(tmp_path, layout, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "system" in problem(tmp_path, layout([torch_format.ShellCommand()]))
    assert [path.name for path in tmp_path.iterdir()] == ["best.pt"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_truncated_files_are_refused(tmp_path, layout):
    content = layout({"a": Tensor.of(GRID), "b": Tensor.of(GRID)})
    for length in {0, 1, 3, 4, 30, *range(0, len(content), 97), len(content) - 1}:
        problem(tmp_path, content[:length])


def test_a_flipped_byte_is_refused_or_changes_nothing(tmp_path):
    """Some bytes between the parts of an archive mean nothing to its reader."""
    content = torch_format.zip_layout({"a": Tensor.of(GRID)})
    accepted = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        try:
            found = read(tmp_path, damaged)
        except InputError as error:
            assert str(error).startswith(f"{tmp_path / 'best.pt'}: ")
        else:
            accepted += 1
            assert found.keys() == {"a"} and found["a"].tolist() == GRID.tolist()
    assert accepted < len(content) / 6


def archive(content, change):
    """Returns the same archive after a change of its members."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return made.getvalue()


def test_storages_and_tensors_that_do_not_fit_are_refused(tmp_path):
    good = torch_format.zip_layout([Tensor.of(GRID)])
    assert "data/0" in problem(tmp_path, archive(good, lambda members: members.pop("best/data/0")))
    assert "20 bytes, not 24" in problem(
        tmp_path, archive(good, lambda members: members.update({"best/data/0": bytes(20)}))
    )
    assert "28 bytes, not 24" in problem(
        tmp_path, archive(good, lambda members: members.update({"best/data/0": bytes(28)}))
    )
    problem(tmp_path, archive(good, lambda members: members.pop("best/data.pkl")))
    problem(tmp_path, archive(good, lambda members: members.update({"other/data.pkl": b"."})))
    for view in (
        (1, (2, 3), (3, 1)),
        (0, (2, 3), (4, 1)),
        (0, (9,), (0,)),
        (-1, (2,), (1,)),
        (0, (2,), (-1,)),
        (0, (2,), (1, 1)),
        (0, (10**12,), (1,)),
    ):
        assert "a tensor is" in problem(tmp_path, torch_format.zip_layout([Tensor(Storage(GRID), *view)]))
    with zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("best/data.pkl", pickle.dumps(["x" * 100_000], protocol=2))
    assert "not as PyTorch writes it" in problem(tmp_path, (tmp_path / "packed.pt").read_bytes())


def test_sizes_beyond_the_file_are_refused_before_allocation(tmp_path):
    for layout in LAYOUTS:
        assert "too short for its storages" in problem(
            tmp_path, layout([Tensor(Storage(GRID, count=10**13), 0, (2, 3), (3, 1))])
        )
    memo = b"\x80\x02]r\xff\xff\xff\x7f."  # a memo entry with the largest possible index
    assert "the pickle is damaged" in problem(
        tmp_path, archive(torch_format.zip_layout([]), lambda members: members.update({"best/data.pkl": memo}))
    )


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\3\4", pickle.dumps(1), b"\x80\x02}q\x00."])
def test_files_not_written_by_pytorch_are_refused(tmp_path, content):
    problem(tmp_path, content)


def test_missing_files_and_folders_are_refused(tmp_path):
    for path in (tmp_path / "none.pt", tmp_path):
        with pytest.raises(InputError, match="there is no such file"):
            torch_files.load(path)
