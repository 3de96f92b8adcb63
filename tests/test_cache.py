"""Stored digests of files, and detection of damaged cache entries."""

import os
import time

import numpy as np
import pytest

from jaxmatch.data import encoding
from jaxmatch.errors import InputError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("one")
    return path


@pytest.fixture
def hashed(monkeypatch):
    """The paths of the files that are hashed, in order."""
    original, found = encoding.hash_file, []
    monkeypatch.setattr(encoding, "hash_file", lambda path: found.append(path) or original(path))
    return found


def test_digest_is_reused_without_hashing_again(file, tmp_path, settled, hashed):
    first = encoding.file_digest(file, tmp_path / "cache")
    assert encoding.file_digest(file, tmp_path / "cache") == first == encoding.hash_file(file)
    assert len(hashed) == 2  # one of them by this test


def test_file_replaced_with_same_size_and_time_is_hashed_again(file, tmp_path, settled):
    first = encoding.file_digest(file, tmp_path / "cache")
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = encoding.file_digest(file, tmp_path / "cache")
    assert second == encoding.hash_file(file) != first
    other = tmp_path / "other"
    other.write_text("six")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, file)
    assert encoding.file_digest(file, tmp_path / "cache") == encoding.hash_file(file) != second


@pytest.mark.parametrize("differs", ["size", "modified", "changed", "inode", "path"])
def test_change_of_any_file_state_field_causes_rehashing(file, tmp_path, settled, hashed, monkeypatch, differs):
    original = encoding.file_state
    monkeypatch.setattr(encoding, "file_state", lambda path: original(path) | {differs: 1})
    encoding.file_digest(file, tmp_path / "cache")
    monkeypatch.setattr(encoding, "file_state", original)
    encoding.file_digest(file, tmp_path / "cache")
    assert len(hashed) == 2


def test_recently_changed_file_is_hashed_again(file, tmp_path, hashed, monkeypatch):
    """A second change within the same clock tick may leave the times of the file unchanged."""
    changed = file.stat().st_ctime_ns
    for seconds, count in ((1.9, 1), (1.9, 2), (2.1, 3), (2.1, 3)):
        monkeypatch.setattr(time, "time_ns", lambda now=changed + int(seconds * 1e9): now)
        encoding.file_digest(file, tmp_path / "cache")
        assert len(hashed) == count


def test_digest_of_a_file_changed_while_hashing_is_not_stored(file, tmp_path, settled, monkeypatch):
    original = encoding.hash_file

    def changing(path):
        digest = original(path)
        file.write_text("longer")
        return digest

    monkeypatch.setattr(encoding, "hash_file", changing)
    encoding.file_digest(file, tmp_path / "cache")
    assert not (tmp_path / "cache" / "digests").exists()


@pytest.mark.parametrize(
    "kind, make",
    [("a pipe", os.mkfifo), ("a folder", os.mkdir), ("a device", lambda path: path.symlink_to("/dev/zero"))],
)
def test_only_regular_files_are_hashed(tmp_path, kind, make):
    make(tmp_path / "odd")
    with pytest.raises(InputError, match=f"this is {kind}, not a file"):
        encoding.file_digest(tmp_path / "odd", tmp_path / "cache")


# --- entries ------------------------------------------------------------------------------------------------------


@pytest.fixture
def entry(tmp_path):
    """An entry with a small and a large array."""
    arrays = {"small": np.arange(3), "large": np.arange(3000.0).reshape(30, 100), "none": np.zeros((0, 2), np.float32)}
    encoding.store_entry(tmp_path / "entry", arrays, {"words": ["a"]})
    return tmp_path / "entry"


def test_loaded_entry_equals_the_stored_entry(entry):
    arrays, values = encoding.load_entry(entry)
    assert sorted(arrays) == ["large", "none", "small"] and values == {"words": ["a"]}
    np.testing.assert_array_equal(arrays["large"], np.arange(3000.0).reshape(30, 100))
    np.testing.assert_array_equal(arrays["small"], np.arange(3))
    assert isinstance(arrays["large"], np.memmap) and not isinstance(arrays["small"], np.memmap)
    assert arrays["none"].shape == (0, 2)
