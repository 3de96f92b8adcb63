"""Encoding of texts as arrays, and its cache."""

import dataclasses
import os
import time
from pathlib import Path

import numpy as np
import pytest

from jaxmatch import files
from jaxmatch.data import catalog, data_check, encoding
from jaxmatch.data.encoding import DataSettings, EncodedSplit, prepare
from jaxmatch.errors import InputError

VECTORS = "cat 1 2\nDOG 3 4\nbroken 1\nunused 5 6\ncow 7 8\n"
HEADER = "text_a\ttext_b\tlabel\tgroup\n"
TRAIN = HEADER + "The cat, the dog.\tdog\t1\tq1\nThe cat, the dog.\t?\t0\tq1\nthe end\tthe cow the\t0\tq2\n"
DEV = HEADER + "a dog\tcat cat\t1\tq9\n"


@pytest.fixture
def own(tmp_path):
    """The settings of own data of two splits with vectors."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "train.tsv").write_text(TRAIN)
    (folder / "dev.tsv").write_text(DEV)
    (tmp_path / "some.2d.txt").write_text(VECTORS)
    return DataSettings("own", directory=str(folder), task="ranking", vectors=str(tmp_path / "some.2d.txt"))


def words_of(data, split, side):
    """Returns the words of each sentence of one side."""
    encoded = data.splits[split]
    tokens, offsets = getattr(encoded, f"tokens_{side}"), getattr(encoded, f"offsets_{side}")
    return [[data.vocabulary.words[token] for token in part] for part in np.split(tokens, offsets[1:-1])]


def test_encoded_arrays_and_report_equal_hand_computed_values(own, tmp_path):
    data = prepare(own, tmp_path / "cache")
    assert (data.name, data.task, data.labels, list(data.splits)) == ("own", "ranking", ("0", "1"), ["train", "dev"])
    # Occurrences: the 4 + 3, dog 2 + 1 + 1, cat 2 + 2, cow 1, end 1, a 1. Five occurrences or a vector are needed.
    assert data.vocabulary.words == ("<padding>", "<unknown>", "the", "cat", "dog", "cow")
    np.testing.assert_array_equal(data.vectors, [[0, 0], [0, 0], [0, 0], [1, 2], [3, 4], [7, 8]])
    assert data.vectors.dtype == np.float32
    train = data.splits["train"]
    assert words_of(data, "train", "a") == [["the", "cat", "the", "dog"]] * 2 + [["the", "<unknown>"]]
    assert words_of(data, "train", "b") == [["dog"], ["<unknown>"], ["the", "cow", "the"]]
    assert words_of(data, "dev", "a") == [["<unknown>", "dog"]]
    assert train.tokens_a.dtype == np.int32 and train.offsets_a.dtype == np.int64
    assert (train.pairs, train.lengths_a.tolist(), train.lengths_b.tolist()) == (3, [4, 4, 2], [1, 1, 3])
    assert train.labels.tolist() == [1, 0, 0] and train.labels.dtype == np.int32
    assert train.groups.tolist() == [0, 0, 1] and train.groups.dtype == np.int32
    assert train.documents is None
    report = data.report
    assert report["counts"] == {"train": 3, "dev": 1} and report["in_train"] == {"dev": 0}
    assert (report["vectors"], report["vector_lines"], report["broken_vector_lines"]) == ("some.2d", 5, 1)
    assert report["broken_vector_examples"] == ["line 3: 1 numbers instead of 2"]
    assert report["coverage"]["words_with_vector"] == pytest.approx(3 / 4)
    # Nine of the nineteen tokens have a vector. A text without a token left counts as one unknown token.
    assert report["coverage"]["tokens_with_vector"] == pytest.approx(9 / 19)
    assert report["coverage"]["tokens_in_vocabulary"] == pytest.approx(16 / 19)


def test_content_of_data_depends_on_its_characters(own, tmp_path):
    data = prepare(own, tmp_path / "cache")
    ones, twos = (dataclasses.replace(data, characters=np.full((6, 16), each, np.uint16)) for each in (1, 2))
    assert data.content == data.fingerprint == ones.fingerprint
    assert len({data.content, ones.content, twos.content}) == 3
    assert ones.content == dataclasses.replace(data, characters=ones.characters.copy()).content


def test_pair_rows_concatenate_pairs_and_pad_rows():
    split = EncodedSplit(
        tokens_a=np.array([5, 6, 7, 8], np.int32),
        offsets_a=np.array([0, 3, 4]),
        tokens_b=np.array([9, 4], np.int32),
        offsets_b=np.array([0, 1, 2]),
        labels=np.zeros(2, np.int32),
    )
    ids, sentences = split.pair_rows()
    assert ids.tolist() == [[5, 6, 7, 9], [8, 4, 0, 0]]
    assert sentences.tolist() == [[1, 1, 1, 2], [1, 2, 0, 0]]
    assert (ids.dtype, sentences.dtype) == (np.int32, np.int8)
    assert split.lengths.tolist() == [4, 2]


def test_training_pairs_with_a_long_text_are_left_out_and_counted(own, tmp_path):
    def prepared(**changes):
        return prepare(dataclasses.replace(own, exact_match=True, **changes), tmp_path / "cache")

    (Path(own.directory) / "dev.tsv").write_text(DEV + "the cat the dog the cow\tcat\t0\tq9\n")
    whole, short = prepared(), prepared(drop_from_length=4)  # its three pairs have texts of 4 and 1, 4 and 1, 2 and 3
    assert words_of(short, "train", "a") == words_of(whole, "train", "a")[2:]
    assert words_of(short, "train", "b") == words_of(whole, "train", "b")[2:]
    train = short.splits["train"]
    assert train.labels.tolist() == [0] and train.groups.tolist() == [0]
    assert [len(train.exact_match_a), len(train.exact_match_b)] == [2, 3]
    assert short.report["counts"] == {"train": 1, "dev": 2}
    assert short.report["dropped"] == {"train": {"a text of 4 tokens or more": 2}, "dev": {}}
    # The vocabulary and dev are the same as with all pairs.
    assert short.vocabulary.words == whole.vocabulary.words
    assert words_of(short, "dev", "a") == words_of(whole, "dev", "a") and short.splits["dev"].pairs == 2
    assert prepared(drop_from_length=5).report == whole.report
    with pytest.raises(InputError, match="every training pair of data set 'own' has a text of 3 tokens or more"):
        prepared(drop_from_length=3)
    with pytest.raises(InputError, match="data.drop_from_length = 4 drops nothing: data.maximum_length cuts texts to"):
        prepared(drop_from_length=4, maximum_length=3)


def test_vectors_of_too_few_tokens_are_refused(own, tmp_path):
    assert prepare(own, tmp_path / "cache").report["warnings"] == ["only 47.4% of all tokens have a vector in some.2d"]
    most = dataclasses.replace(own, minimum_coverage=9 / 19)
    assert prepare(most, tmp_path / "cache").report == prepare(own, tmp_path / "cache").report
    Path(own.vectors).write_text("end 1 2\nanother 3 4\n")
    for _ in range(2):  # also if the data was encoded before
        with pytest.raises(InputError, match="some.2d.txt: only 5.3% of all tokens have a vector; .*coverage=0"):
            prepare(own, tmp_path / "cache")
    assert prepare(dataclasses.replace(own, minimum_coverage=0), tmp_path / "cache").fingerprint
    for words in ("none", "hashed"):
        assert prepare(dataclasses.replace(own, vectors=words), tmp_path / "cache").report["warnings"] == []


def test_missing_vectors_are_refused(own, tmp_path):
    with pytest.raises(InputError, match="'own' has no word vectors of its own; name a file"):
        prepare(DataSettings("own", own.directory, own.task), tmp_path / "cache")
    with pytest.raises(InputError, match="no-such.txt: there is no such vector file"):
        prepare(DataSettings("own", own.directory, own.task, vectors=str(tmp_path / "no-such.txt")), tmp_path / "cache")


@pytest.mark.parametrize("split", ["train", "dev"])
def test_split_whose_texts_have_no_words_left_is_refused(own, tmp_path, split):
    path = tmp_path / "data" / f"{split}.tsv"
    header, *rows = path.read_text().splitlines()
    rows = ["\t".join(["?!", "...", *row.split("\t")[2:]]) for row in rows]
    path.write_text("\n".join([header, *rows]))
    for read in (lambda: prepare(own, tmp_path / "cache"), lambda: data_check.check(own)):
        with pytest.raises(InputError, match=f"{split}.tsv: no text of the {split} split of .*; keep punctuation"):
            read()
    prepare(dataclasses.replace(own, remove_punctuation=False), tmp_path / "cache")
    path.write_text("\n".join([header, *rows[:-1], rows[-1].replace("...", "word")]))
    prepare(own, tmp_path / "cache")


# --- the cache of prepared data


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
CHANGES |= {"truncation_side": "left"}


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_a_separate_cache_entry(own, tmp_path, settled, name):
    first = prepare(own, tmp_path / "cache")
    other = prepare(dataclasses.replace(own, **{name: CHANGES[name]}), tmp_path / "cache")
    assert other.fingerprint != first.fingerprint
    assert_same(first, prepare(own, tmp_path / "cache"))
    if name == "maximum_length":
        assert other.splits["train"].lengths_a.max() == 2
    if name == "minimum_count":
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
    for damage in (lambda text: "{", lambda text: "0" + text[1:], lambda text: text[:-9]):
        for note in (tmp_path / "cache" / "digests").iterdir():
            note.write_text(damage(note.read_text()))
        assert prepare(own, tmp_path / "cache").fingerprint == first.fingerprint


def test_partial_files_of_killed_writers_are_removed(own, tmp_path):
    (tmp_path / "cache" / "encoded").mkdir(parents=True)
    (tmp_path / "cache" / "encoded" / ".abc.999999.0123abcd.partial").write_bytes(b"1")
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


def test_recently_changed_file_is_hashed_again(tmp_path, monkeypatch):
    """A second change within the same clock tick may leave the times of the file unchanged."""
    file, original, hashed = tmp_path / "train.tsv", encoding.hash_file, []
    file.write_text("one")
    monkeypatch.setattr(encoding, "hash_file", lambda path: hashed.append(path) or original(path))
    changed = file.stat().st_ctime_ns
    for seconds, count in ((1.9, 1), (1.9, 2), (2.1, 3), (2.1, 3)):
        monkeypatch.setattr(time, "time_ns", lambda now=changed + int(seconds * 1e9): now)
        encoding.file_digest(file, tmp_path / "cache")
        assert len(hashed) == count
