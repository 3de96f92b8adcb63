"""Stored digests of files, and detection of damaged cache entries."""

import json
import os
import time

import numpy as np
import pytest

from jaxmatch.data import cache
from jaxmatch.errors import InputError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("one")
    return path


@pytest.fixture
def hashed(monkeypatch):
    """The paths of the files that are hashed, in order."""
    original, found = cache.hash_file, []
    monkeypatch.setattr(cache, "hash_file", lambda path: found.append(path) or original(path))
    return found


def note_of(folder):
    (note,) = (folder / "digests").iterdir()
    return note


def test_digest_is_reused_without_hashing_again(file, tmp_path, settled, hashed):
    first = cache.file_digest(file, tmp_path / "cache")
    assert cache.file_digest(file, tmp_path / "cache") == first == cache.hash_file(file)
    assert len(hashed) == 2  # one of them by this test


def test_file_replaced_with_same_size_and_time_is_hashed_again(file, tmp_path, settled):
    first = cache.file_digest(file, tmp_path / "cache")
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = cache.file_digest(file, tmp_path / "cache")
    assert second == cache.hash_file(file) != first
    other = tmp_path / "other"
    other.write_text("six")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, file)
    assert cache.file_digest(file, tmp_path / "cache") == cache.hash_file(file) != second


@pytest.mark.parametrize("differs", ["size", "modified", "changed", "inode", "path"])
def test_change_of_any_file_state_field_causes_rehashing(file, tmp_path, settled, hashed, monkeypatch, differs):
    original = cache.file_state
    monkeypatch.setattr(cache, "file_state", lambda path: original(path) | {differs: 1})
    cache.file_digest(file, tmp_path / "cache")
    monkeypatch.setattr(cache, "file_state", original)
    cache.file_digest(file, tmp_path / "cache")
    assert len(hashed) == 2


def test_recently_changed_file_is_hashed_again(file, tmp_path, hashed, monkeypatch):
    """A second change within the same clock tick may leave the times of the file unchanged."""
    changed = file.stat().st_ctime_ns
    for seconds, count in ((1.9, 1), (1.9, 2), (2.1, 3), (2.1, 3)):
        monkeypatch.setattr(time, "time_ns", lambda now=changed + int(seconds * 1e9): now)
        cache.file_digest(file, tmp_path / "cache")
        assert len(hashed) == count


def test_digest_of_a_file_changed_while_hashing_is_not_stored(file, tmp_path, settled, monkeypatch):
    original = cache.hash_file

    def changing(path):
        digest = original(path)
        file.write_text("longer")
        return digest

    monkeypatch.setattr(cache, "hash_file", changing)
    cache.file_digest(file, tmp_path / "cache")
    assert not (tmp_path / "cache" / "digests").exists()


def test_damaged_digest_note_never_gives_a_wrong_digest(file, tmp_path, settled):
    """Whichever byte is damaged, the note gives the digest of the file or no digest."""
    digest = cache.file_digest(file, tmp_path / "cache")
    note, state = note_of(tmp_path / "cache"), cache.file_state(file)
    content = note.read_bytes()
    assert cache.cached_digest(note, state) == digest
    for place in range(len(content)):
        note.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 7]) + content[place + 1 :])
        assert cache.cached_digest(note, state) in ("", digest)
    assert cache.file_digest(file, tmp_path / "cache") == digest


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path)]
)
def test_digest_note_that_is_no_regular_file_is_ignored(file, tmp_path, settled, make):
    cache.file_digest(file, tmp_path / "cache")
    note = note_of(tmp_path / "cache")
    note.unlink()
    make(note)
    assert cache.file_digest(file, tmp_path / "cache") == cache.hash_file(file)
    assert [*(tmp_path / "cache" / "digests").iterdir()] == [note] and not note.is_file()


@pytest.mark.parametrize(
    "kind, make",
    [("a pipe", os.mkfifo), ("a folder", os.mkdir), ("a device", lambda path: path.symlink_to("/dev/zero"))],
)
def test_only_regular_files_are_hashed(tmp_path, kind, make):
    make(tmp_path / "odd")
    with pytest.raises(InputError, match=f"this is {kind}, not a file"):
        cache.file_digest(tmp_path / "odd", tmp_path / "cache")


# --- entries ------------------------------------------------------------------------------------------------------


@pytest.fixture
def entry(tmp_path):
    """An entry with a small and a large array."""
    arrays = {"small": np.arange(3), "large": np.arange(3000.0).reshape(30, 100), "none": np.zeros((0, 2), np.float32)}
    cache.store(tmp_path / "entry", arrays, {"words": ["a"]})
    return tmp_path / "entry"


def seal(entry):
    """Updates the hashes of an entry after a test changed one of its files."""
    names = [path.name for path in entry.iterdir() if path.is_file() and path.name != "entry.json"]
    sealed = {"format": cache.FORMAT, "sha256": {name: cache.hash_file(entry / name) for name in names}}
    (entry / "entry.json").write_text(json.dumps(sealed))


def test_loaded_entry_equals_the_stored_entry(entry):
    arrays, values = cache.load(entry)
    assert sorted(arrays) == ["large", "none", "small"] and values == {"words": ["a"]}
    np.testing.assert_array_equal(arrays["large"], np.arange(3000.0).reshape(30, 100))
    np.testing.assert_array_equal(arrays["small"], np.arange(3))
    assert isinstance(arrays["large"], np.memmap) and not isinstance(arrays["small"], np.memmap)
    assert arrays["none"].shape == (0, 2)


@pytest.mark.parametrize("name", ["small", "large", "none"])
@pytest.mark.parametrize("shape", [(150_000_000_000,), (10**30,), (-1,), (-2, -2), (2,)])
def test_array_shape_that_contradicts_the_file_size_is_damage(entry, name, shape):
    with open(entry / f"{name}.npy", "r+b") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    seal(entry)
    with pytest.raises(cache.DamagedEntry, match="bytes where .* are expected|shape|header"):
        cache.load(entry)


def damage_by_an_extra_file(entry):
    (entry / "more.npy").write_bytes(b"")


def damage_by_a_pipe(entry):
    (entry / "small.npy").unlink()
    os.mkfifo(entry / "small.npy")


def damage_by_a_pipe_as_entry_json(entry):
    (entry / "entry.json").unlink()
    os.mkfifo(entry / "entry.json")


def damage_by_an_unlisted_file(entry):
    listed = json.loads((entry / "entry.json").read_text())
    del listed["sha256"]["small.npy"]
    (entry / "entry.json").write_text(json.dumps(listed))


def damage_by_missing_values(entry):
    (entry / "values.json").unlink()
    seal(entry)


def damage_by_deeply_nested_json(entry):
    (entry / "values.json").write_text("[" * 100_000)
    seal(entry)


def damage_by_python_objects(entry):
    np.save(entry / "small.npy", np.array([{}]), allow_pickle=True)
    seal(entry)


def damage_by_an_npz_archive(entry):
    with open(entry / "small.npy", "wb") as file:
        np.savez(file, a=np.arange(3))
    seal(entry)


def damage_by_an_empty_file(entry):
    (entry / "small.npy").write_bytes(b"")
    seal(entry)


DAMAGES = [value for name, value in globals().items() if name.startswith("damage_by")]


@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.__name__ for damage in DAMAGES])
def test_damaged_entry_raises(entry, damage):
    damage(entry)
    with pytest.raises(cache.DamagedEntry):
        cache.load(entry)


def test_file_at_the_path_of_an_entry_is_replaced(tmp_path):
    (tmp_path / "entry").write_text("")
    with pytest.raises(cache.DamagedEntry):
        cache.load(tmp_path / "entry")
    cache.store(tmp_path / "entry", {"a": np.arange(2)}, {})
    assert cache.load(tmp_path / "entry")[0]["a"].tolist() == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]
