"""Checkpoints: the newest undamaged one is restored exactly, and a failed save leaves those before."""

import errno
import logging
import os
import resource

import numpy as np
import pytest

from jaxmatch.training.checkpoints import Checkpoints


def tree(value):
    return {"a": np.full((3, 4), value, np.float32), "b": (np.arange(5, dtype=np.int32), np.full((), value, np.int32))}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def test_newest_checkpoint_is_restored_exactly_and_two_are_kept(folder):
    checkpoints = Checkpoints(folder)
    assert checkpoints.restore(tree(0)) is None
    for number in (8, 9, 10):
        checkpoints.save(number, tree(number), {"epoch": number, "score": float("nan")})
    assert sorted(os.listdir(folder)) == ["10", "9"]
    (folder / ".11.12.abcdef01.partial").touch()  # as a killed writer leaves it
    arrays, notes = Checkpoints(folder).restore(tree(0))
    assert notes["epoch"] == 10 and np.isnan(notes["score"])
    np.testing.assert_array_equal(arrays["a"], tree(10)["a"])
    assert arrays["a"].dtype == np.float32 and arrays["b"][0].dtype == np.int32 and arrays["b"][1] == 10
    assert sorted(os.listdir(folder)) == ["10", "9"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "another structure"])
def test_damaged_checkpoint_is_skipped_for_the_one_before_and_removed_by_the_next_save(folder, damage):
    checkpoints, big = Checkpoints(folder), {"a": np.random.default_rng(0).normal(size=(200, 50)).astype(np.float32)}
    checkpoints.save(1, big, {"epoch": 1})
    checkpoints.save(2, {"a": big["a"] + 1} if damage != "another structure" else tree(0), {"epoch": 2})
    content = bytearray((folder / "2").read_bytes())
    half = len(content) // 2
    if damage == "flip":
        content[half] ^= 255
    (folder / "2").write_bytes(content[: {"truncate": half, "empty": 0}.get(damage)])
    arrays, notes = checkpoints.restore(big)
    assert notes == {"epoch": 1}
    np.testing.assert_array_equal(arrays["a"], big["a"])
    assert sorted(os.listdir(folder)) == ["1", "2"]
    checkpoints.save(2, big, {"epoch": 22})  # as the damaged one
    assert checkpoints.restore(big)[1] == {"epoch": 22} and "2" not in os.listdir(folder)


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EMFILE, "Too many open files")], ids=type)
def test_temporary_read_errors_do_not_count_as_damage(folder, monkeypatch, caplog, error):
    checkpoints = Checkpoints(folder)
    checkpoints.save(1, tree(1), {})

    def failing(*_, **__):
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(np, "load", failing)
        checkpoints.restore(tree(0))
    assert os.listdir(folder) == ["1"]
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_failed_save_raises_one_error_and_leaves_no_files(folder):
    checkpoints, big = Checkpoints(folder), {"a": np.zeros(100_000, np.float32)}
    checkpoints.save(1, big, {"epoch": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            checkpoints.save(1, big, {"epoch": 1.5})  # even one of the same number leaves the one before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(folder / "2"))
    assert os.listdir(folder) == ["1"] and checkpoints.restore(big)[1] == {"epoch": 1}
