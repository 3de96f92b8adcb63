"""Prepared data is cached, is invalidated when files change, and is rebuilt if its cache entry is damaged."""

import dataclasses
import os
import time

import numpy as np
import pytest
from own_data_set import TRAIN, VECTORS, own_data, words_of

from jaxmatch import files
from jaxmatch.data import catalog, encoding
from jaxmatch.data.encoding import DataSettings, prepare
from jaxmatch.errors import InputError


@pytest.fixture
def own(tmp_path):
    return own_data(tmp_path)


def assert_same(first, second):
    for field in dataclasses.fields(first):
        if field.name not in ("vocabulary", "vectors", "splits"):
            assert getattr(first, field.name) == getattr(second, field.name), field.name
    assert first.vocabulary.words == second.vocabulary.words
    np.testing.assert_array_equal(first.vectors, second.vectors)
    for name, split in first.splits.items():
        for key, array in vars(split).items():
            np.testing.assert_array_equal(array, getattr(second.splits[name], key))


def test_a_second_preparation_reads_no_data_files(own, tmp_path, settled, monkeypatch):
    first = prepare(own, tmp_path / "cache")

    def unexpected(*_, **__):
        raise AssertionError("the data was read again")

    monkeypatch.setattr(catalog, "load", unexpected)
    monkeypatch.setattr(encoding, "read_word_vectors", unexpected)
    monkeypatch.setattr(encoding, "hash_file", unexpected)
    assert_same(first, prepare(own, tmp_path / "cache"))


def test_fingerprint_does_not_depend_on_data_or_cache_location(own, tmp_path):
    moved = tmp_path / "elsewhere"
    os.rename(own.directory, moved)
    other = DataSettings("own", str(moved), "ranking", vectors=own.vectors)
    fingerprint = prepare(other, tmp_path / "cache").fingerprint
    os.rename(moved, own.directory)
    assert prepare(own, tmp_path / "other cache").fingerprint == fingerprint


CHANGES = {"lowercase": False, "minimum_count": 1, "maximum_length": 2, "tokenizer": "tweet", "drop_from_length": 4}


@pytest.mark.parametrize("change", [{name: value} for name, value in CHANGES.items()], ids=CHANGES)
def test_every_setting_has_a_separate_cache_entry(own, tmp_path, settled, change):
    first = prepare(own, tmp_path / "cache")
    changed = DataSettings("own", own.directory, own.task, vectors=own.vectors, **change)
    other = prepare(changed, tmp_path / "cache")
    assert other.fingerprint != first.fingerprint
    assert_same(first, prepare(own, tmp_path / "cache"))
    if "maximum_length" in change:
        assert other.splits["train"].lengths_a.max() == 2
        sides = [dataclasses.replace(changed, minimum_count=1, truncation_side=side) for side in ("left", "right")]
        whole = dataclasses.replace(own, minimum_count=1)
        left, right, whole = (prepare(one, tmp_path / "cache") for one in (*sides, whole))
        assert len({left.fingerprint, right.fingerprint, whole.fingerprint}) == 3
        assert words_of(left, "train", "a") == [words[-2:] for words in words_of(whole, "train", "a")]
        assert words_of(right, "train", "a") == [words[:2] for words in words_of(whole, "train", "a")]
    if "minimum_count" in change:
        assert "end" in other.vocabulary.words


def test_changed_files_change_the_fingerprint(own, tmp_path, settled):
    first = prepare(own, tmp_path / "cache")
    path = tmp_path / "data" / "train.tsv"
    status = path.stat()
    path.write_text(TRAIN.replace("dog\t1\tq1", "cow\t1\tq1"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the same size and modification time
    second = prepare(own, tmp_path / "cache")
    assert second.fingerprint != first.fingerprint and words_of(second, "train", "b")[0] == ["cow"]
    vectors = tmp_path / "some.2d.txt"
    vectors.write_text(VECTORS.replace("cat 1 2", "cat 9 9 "))
    third = prepare(own, tmp_path / "cache")
    assert third.fingerprint != second.fingerprint
    assert third.vectors[third.vocabulary.ids(["cat"])[0]].tolist() == [9, 9]


@pytest.mark.parametrize("place", [0.0, 0.5, None])
def test_a_damaged_entry_is_rebuilt(own, tmp_path, place):
    first = prepare(own, tmp_path / "cache")
    entry = tmp_path / "cache" / "encoded" / f"{first.fingerprint}.npz"
    content = bytearray(entry.read_bytes())
    if place is None:
        del content[-40:]
    else:
        content[int(place * len(content))] ^= 1
    entry.write_bytes(content)
    assert_same(first, prepare(own, tmp_path / "cache"))
    with np.load(entry) as stored:
        assert stored["vectors"].tolist() == first.vectors.tolist()


def test_a_damaged_digest_file_does_not_change_the_fingerprint(own, tmp_path, settled):
    first = prepare(own, tmp_path / "cache")
    for note in (tmp_path / "cache" / "digests").iterdir():
        note.write_text("{")
    assert prepare(own, tmp_path / "cache").fingerprint == first.fingerprint


@pytest.mark.parametrize("place", ["encoded/*.npz", "digests/*.json"])
def test_a_pipe_in_the_cache_is_an_error(own, tmp_path, settled, place):
    prepare(own, tmp_path / "cache")
    for path in (tmp_path / "cache").glob(place):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(InputError, match="this is a pipe, not a file; remove it"):
        prepare(own, tmp_path / "cache")


def test_partial_files_of_killed_writers_are_removed(own, tmp_path):
    for folder in ("encoded", "digests"):
        (tmp_path / "cache" / folder).mkdir(parents=True)
        (tmp_path / "cache" / folder / ".abc.999999.0123abcd.partial").write_bytes(b"1")
    with files.open_atomically(tmp_path / "cache" / "encoded" / "other"):  # a live writer's
        prepare(own, tmp_path / "cache")
        assert len([*(tmp_path / "cache").rglob("*.partial")]) == 1


def test_files_that_change_while_they_are_read_are_an_error(own, tmp_path, monkeypatch):
    """Otherwise the entry would be stored under the hash of the files before the change."""
    whole = catalog.load

    def changing(*arguments, **keywords):
        data = whole(*arguments, **keywords)
        (tmp_path / "data" / "train.tsv").write_text(TRAIN.replace("cow", "cat"))
        return data

    monkeypatch.setattr(catalog, "load", changing)
    with pytest.raises(InputError, match="data: its files changed while they were read; start again"):
        prepare(own, tmp_path / "cache")
    assert not [*(tmp_path / "cache" / "encoded").glob("*.npz")]


# --- digests of files -------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("differs", ["size", "path", None])
def test_digest_is_reused_unless_the_state_of_the_file_differs(file, tmp_path, settled, hashed, monkeypatch, differs):
    original = encoding.file_state
    if differs:
        monkeypatch.setattr(encoding, "file_state", lambda path: original(path) | {differs: 1})
    first = encoding.file_digest(file, tmp_path / "cache")
    monkeypatch.setattr(encoding, "file_state", original)
    assert encoding.file_digest(file, tmp_path / "cache") == first
    assert len(hashed) == (2 if differs else 1)


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
