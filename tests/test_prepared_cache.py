"""Prepared data is cached, is invalidated when files change, and is rebuilt if its cache entry is damaged."""

import dataclasses
import multiprocessing
import os
import time

import numpy as np
import pytest
from own_data_set import TRAIN, VECTORS, own_data, words_of

from jaxmatch import files
from jaxmatch.data import catalog, encoding
from jaxmatch.data.encoding import DataSettings, prepare
from jaxmatch.errors import InputError

pytestmark = pytest.mark.usefixtures("settled")


@pytest.fixture
def own(tmp_path):
    return own_data(tmp_path)


def arrays_of(data):
    found = {"vectors": data.vectors}
    for name, split in data.splits.items():
        for key in ("tokens_a", "offsets_a", "tokens_b", "offsets_b", "labels", "groups", "documents"):
            found[f"{name}.{key}"] = getattr(split, key)
    return found


def assert_same(first, second):
    assert first.fingerprint == second.fingerprint and first.report == second.report
    assert first.vocabulary.words == second.vocabulary.words
    assert (first.name, first.task, first.labels) == (second.name, second.task, second.labels)
    arrays, others = arrays_of(first), arrays_of(second)
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, others[key])


def test_a_second_preparation_reads_no_data_files(own, tmp_path, monkeypatch):
    first = prepare(own, tmp_path / "cache")

    def unexpected(*_, **__):
        raise AssertionError("the data was read again")

    monkeypatch.setattr(catalog, "load", unexpected)
    monkeypatch.setattr(encoding, "read_word_vectors", unexpected)
    assert_same(first, prepare(own, tmp_path / "cache"))
    # Unchanged files are not hashed again, either; only the files of the entry are.
    whole, hashed = encoding.hash_file, []
    monkeypatch.setattr(encoding, "hash_file", lambda path: hashed.append(path) or whole(path))
    prepare(own, tmp_path / "cache")
    assert hashed and all(first.fingerprint in str(path) for path in hashed)


def test_fingerprint_does_not_depend_on_data_or_cache_location(own, tmp_path):
    moved = tmp_path / "elsewhere"
    os.rename(own.directory, moved)
    other = DataSettings("own", str(moved), "ranking", vectors=own.vectors)
    fingerprint = prepare(other, tmp_path / "cache").fingerprint
    os.rename(moved, own.directory)
    assert prepare(own, tmp_path / "other cache").fingerprint == fingerprint


CHANGES = {
    "lowercase": False,
    "minimum_count": 1,
    "maximum_length": 2,
    "tokenizer": "tweet",
    "remove_punctuation": False,
    "drop_from_length": 4,
}


@pytest.mark.parametrize("change", [{name: value} for name, value in CHANGES.items()], ids=CHANGES)
def test_every_setting_has_a_separate_cache_entry(own, tmp_path, change):
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


def test_changed_files_change_the_fingerprint(own, tmp_path):
    first = prepare(own, tmp_path / "cache")
    path = tmp_path / "data" / "train.tsv"
    status = path.stat()
    path.write_text(TRAIN.replace("dog\t1\tq1", "cow\t1\tq1"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    second = prepare(own, tmp_path / "cache")
    assert second.fingerprint != first.fingerprint and words_of(second, "train", "b")[0] == ["cow"]
    vectors = tmp_path / "some.2d.txt"
    vectors.write_text(VECTORS.replace("cat 1 2", "cat 9 9 "))
    third = prepare(own, tmp_path / "cache")
    assert third.fingerprint != second.fingerprint
    assert third.vectors[third.vocabulary.ids(["cat"])[0]].tolist() == [9, 9]


def damage_by_a_flipped_byte(entry):
    content = bytearray((entry / "train.tokens_a.npy").read_bytes())
    content[-1] ^= 1
    (entry / "train.tokens_a.npy").write_bytes(content)


def damage_by_a_truncated_file(entry):
    path = entry / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-4])


def damage_by_a_missing_file(entry):
    (entry / "dev.labels.npy").unlink()


def damage_by_a_wrong_json_type(entry):
    (entry / "entry.json").write_text("[1, 2]")


def damage_by_truncated_json(entry):
    (entry / "values.json").write_text((entry / "values.json").read_text()[:-20])


@pytest.mark.parametrize(
    "damage",
    [
        damage_by_a_flipped_byte,
        damage_by_a_truncated_file,
        damage_by_a_missing_file,
        damage_by_a_wrong_json_type,
        damage_by_truncated_json,
    ],
)
def test_a_damaged_entry_is_rebuilt(own, tmp_path, damage):
    first = prepare(own, tmp_path / "cache")
    good = {key: None if array is None else np.array(array) for key, array in arrays_of(first).items()}
    damage(tmp_path / "cache" / "encoded" / first.fingerprint)
    with pytest.raises(encoding.DamagedEntry):
        encoding.load_entry(tmp_path / "cache" / "encoded" / first.fingerprint)
    second = prepare(own, tmp_path / "cache")
    for key, array in arrays_of(second).items():
        np.testing.assert_array_equal(array, good[key])
    encoding.load_entry(tmp_path / "cache" / "encoded" / first.fingerprint)


def test_a_damaged_digest_file_does_not_change_the_fingerprint(own, tmp_path):
    first = prepare(own, tmp_path / "cache")
    for note in (tmp_path / "cache" / "digests").iterdir():
        note.write_text("{")
    assert prepare(own, tmp_path / "cache").fingerprint == first.fingerprint


def _prepare_in_a_process(arguments):
    settings_, cache_directory = arguments
    data = prepare(settings_, cache_directory)
    return data.fingerprint, int(data.splits["train"].tokens_a.sum())


def test_concurrent_processes_prepare_the_same_data(own, tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(_prepare_in_a_process, [(own, tmp_path / "cache")] * 4, chunksize=1)
    assert len(set(results)) == 1
    data = prepare(own, tmp_path / "cache")
    assert results[0] == (data.fingerprint, int(data.splits["train"].tokens_a.sum()))
    assert not [path for path in (tmp_path / "cache").rglob("*.partial")]


def test_an_unreadable_file_error_names_the_file_and_not_the_cache(own, tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(encoding, "hash_file", refused)
    with pytest.raises(InputError, match=r"it cannot be read \(Permission denied\); ask its owner for it") as caught:
        prepare(own, tmp_path / "cache")
    assert caught.value.path.parent.samefile(own.directory) or caught.value.path.samefile(own.vectors)


def test_real_data_loads_from_the_cache_within_two_seconds(data_folder, tmp_path):
    vectors = data_folder / "vectors" / "minilm.300d.zip"
    real = DataSettings("sick", str(data_folder), vectors=str(vectors))
    first = prepare(real, tmp_path)
    assert {name: split.pairs for name, split in first.splits.items()} == {"train": 4500, "dev": 500, "test": 4927}
    assert first.vectors.shape == (len(first.vocabulary), 300) and first.report["broken_vector_lines"] == 0
    assert first.report["coverage"]["tokens_with_vector"] > 0.99
    started = time.perf_counter()
    assert_same(first, prepare(real, tmp_path))
    assert time.perf_counter() - started < 2.0


# --- leftovers in a cache, and data files that change -----------------------------------------------------------------


def test_partial_files_of_killed_writers_are_removed(own, tmp_path):
    for folder in ("encoded", "digests"):
        (tmp_path / "cache" / folder).mkdir(parents=True)
    (tmp_path / "cache" / "encoded" / ".abc.999999.0123abcd.partial").mkdir()
    (tmp_path / "cache" / "encoded" / ".abc.999999.0123abcd.partial" / "vectors.npy").write_bytes(b"1")
    (tmp_path / "cache" / "digests" / ".abc.json.999999.0123abcd.partial").write_bytes(b"1")
    with files.directory_atomically(tmp_path / "cache" / "encoded" / "other"):  # a live writer's
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
    assert not [path for path in (tmp_path / "cache" / "encoded").iterdir() if path.is_dir()]


def test_a_folder_or_broken_link_instead_of_a_file_is_an_error(own, tmp_path):
    (tmp_path / "data" / "test.tsv").mkdir()
    with pytest.raises(InputError, match="test.tsv: this is a folder, not a file"):
        prepare(own, tmp_path / "cache")
    (tmp_path / "data" / "test.tsv").rmdir()
    (tmp_path / "data" / "test.tsv").symlink_to("nowhere")
    with pytest.raises(InputError, match="test.tsv: this is a link to a file that is not there, not a file"):
        prepare(own, tmp_path / "cache")
