"""Text to arrays, and the cache."""

import dataclasses
import json
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch import files
from jaxmatch.data import cache, catalog, data_check, encoding
from jaxmatch.data.corpus import Corpus
from jaxmatch.data.dataset import DataSet, Split
from jaxmatch.data.encoded import EncodedSplit
from jaxmatch.data.encoding import DataSettings, prepare
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.errors import InputError

VECTORS = "cat 1 2\nDOG 3 4\nbroken 1\nunused 5 6\ncow 7 8\n"
TRAIN = "text_a\ttext_b\tlabel\tgroup\nThe cat, the dog.\tdog\t1\tq1\nThe cat, the dog.\t?\t0\tq1\nthe end\tthe cow the\t0\tq2\n"
DEV = "text_a\ttext_b\tlabel\tgroup\na dog\tcat cat\t1\tq9\n"


@pytest.fixture
def own(tmp_path):
    """Own data of two splits with vectors; gives its settings."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "train.tsv").write_text(TRAIN)
    (folder / "dev.tsv").write_text(DEV)
    (tmp_path / "some.2d.txt").write_text(VECTORS)
    return DataSettings("own", directory=str(folder), task="ranking", vectors=str(tmp_path / "some.2d.txt"))


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Files that a test has just written count as old: their digests are remembered."""
    monkeypatch.setattr(cache, "SETTLED_AFTER", -(10**10))


def words_of(data, split, side):
    """Every sentence as the words behind its ids."""
    encoded = data.splits[split]
    tokens, offsets = getattr(encoded, f"tokens_{side}"), getattr(encoded, f"offsets_{side}")
    return [[data.vocabulary.words[token] for token in part] for part in np.split(tokens, offsets[1:-1])]


def test_arrays_by_hand(own, tmp_path):
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
    assert report["counts"] == {"train": 3, "dev": 1}
    assert (report["vectors"], report["vector_lines"], report["broken_vector_lines"]) == ("some.2d", 5, 1)
    assert report["broken_vector_examples"] == ["line 3: 1 numbers instead of 2"]
    assert report["coverage"]["words_with_vector"] == pytest.approx(3 / 4)
    # Nineteen tokens in all; nine of words with a vector; one text had no token left and counts as an unknown one.
    assert report["coverage"]["tokens_with_vector"] == pytest.approx(9 / 19)
    assert report["coverage"]["tokens_in_vocabulary"] == pytest.approx(16 / 19)


def test_regression_labels_are_numbers(tmp_path):
    (tmp_path / "train.tsv").write_text("text_a\ttext_b\tlabel\na cat\ta dog\t3.25\n")
    (tmp_path / "v.txt").write_text("cat 1 2\n")
    data = prepare(
        DataSettings("own", str(tmp_path), "regression", vectors=str(tmp_path / "v.txt")), tmp_path / "cache"
    )
    labels = data.splits["train"].labels
    assert labels.dtype == np.float32 and labels.tolist() == [3.25] and data.labels == ()
    assert data.splits["train"].groups is None and data.splits["train"].documents is None


def test_ranking_keeps_the_names_of_candidates(data_folder, tmp_path):
    (tmp_path / "v.txt").write_text("what 1 2\n")
    settings_ = DataSettings("wikiqa", str(data_folder), vectors=str(tmp_path / "v.txt"), tokenizer="whitespace")
    data = prepare(settings_, tmp_path / "cache")
    read = catalog.load("wikiqa", data_folder)
    for name, split in data.splits.items():
        assert split.documents.tolist() == list(read.splits[name].documents)
        assert len(set(zip(split.groups.tolist(), read.splits[name].groups, strict=True))) == split.groups.max() + 1


def test_pairs_lie_side_by_side():
    split = EncodedSplit(
        tokens_a=np.array([5, 6, 7, 8], np.int32),
        offsets_a=np.array([0, 3, 4]),
        tokens_b=np.array([9, 4], np.int32),
        offsets_b=np.array([0, 1, 2]),
        labels=np.zeros(2, np.int32),
    )
    ids, sentences = split.side_by_side()
    assert ids.tolist() == [[5, 6, 7, 9], [8, 4, 0, 0]]
    assert sentences.tolist() == [[1, 1, 1, 2], [1, 2, 0, 0]]
    assert (ids.dtype, sentences.dtype) == (np.int32, np.int8)
    assert split.lengths.tolist() == [4, 2]


texts = st.lists(
    st.lists(st.sampled_from(["cat", "dog", "cow", "an", "a."]), min_size=1, max_size=5).map(" ".join),
    min_size=1,
    max_size=12,
)


@given(texts, texts, st.integers(0, 3), st.sampled_from(["left", "right"]))
@settings(max_examples=50, deadline=None)
def test_corpus_keeps_every_text_and_counts_every_occurrence(first, second, limit, side):
    size = min(len(first), len(second))
    first, second = first[:size], second[:size]
    labels = ["0"] * size
    splits = {"dev": Split(second, first, labels), "train": Split(first, second, labels)}
    data = DataSet("x", "classification", ("0",), splits)
    preprocessing = Preprocessing("whitespace", maximum_length=limit, truncation_side=side)
    corpus = Corpus(data, preprocessing)
    names = list(corpus.words)
    expected = {}
    for split, side, column in (
        ("train", "a", first),
        ("train", "b", second),
        ("dev", "a", second),
        ("dev", "b", first),
    ):
        tokens, offsets = corpus.column(split, side)
        read = [[names[token] for token in part] for part in np.split(tokens, offsets[1:-1])]
        assert read == [preprocessing.tokens(text) for text in column]
        for token in (token for row in read for token in row):
            expected[token] = expected.get(token, 0) + 1
    assert dict(zip(names, corpus.counts.tolist(), strict=True)) == expected


def arrays_of(data):
    found = {"vectors": data.vectors}
    for name, split in data.splits.items():
        for key in ("tokens_a", "offsets_a", "tokens_b", "offsets_b", "labels", "groups", "documents"):
            found[f"{name}.{key}"] = getattr(split, key)
    return found


def assert_same(first, second):
    assert first.fingerprint == second.fingerprint and first.report == second.report
    assert first.vocabulary == second.vocabulary
    assert (first.name, first.task, first.labels) == (second.name, second.task, second.labels)
    arrays, others = arrays_of(first), arrays_of(second)
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, others[key])


def test_second_start_reads_nothing_again(own, tmp_path, monkeypatch):
    first = prepare(own, tmp_path / "cache")

    def unexpected(*_, **__):
        raise AssertionError("the data was read again")

    monkeypatch.setattr(catalog, "load", unexpected)
    monkeypatch.setattr(encoding, "read_word_vectors", unexpected)
    assert_same(first, prepare(own, tmp_path / "cache"))
    # Nor are unchanged files hashed again; only the entry's own are.
    whole, hashed = cache.hash_file, []
    monkeypatch.setattr(cache, "hash_file", lambda path: hashed.append(path) or whole(path))
    prepare(own, tmp_path / "cache")
    assert hashed and all(first.fingerprint in str(path) for path in hashed)


def test_what_was_prepared_does_not_depend_on_where(own, tmp_path):
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
def test_every_setting_has_an_entry_of_its_own(own, tmp_path, change):
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
    # Words are counted, and dev is read, as if all pairs were there.
    assert short.vocabulary.words == whole.vocabulary.words
    assert words_of(short, "dev", "a") == words_of(whole, "dev", "a") and short.splits["dev"].pairs == 2
    assert prepared(drop_from_length=5).report == whole.report
    with pytest.raises(InputError, match="every training pair of data set 'own' has a text of 3 tokens or more"):
        prepared(drop_from_length=3)
    with pytest.raises(
        InputError, match="no text has data.drop_from_length = 4 tokens: data.maximum_length cuts it after 3"
    ):
        prepared(drop_from_length=4, maximum_length=3)


def test_changed_files_are_noticed(own, tmp_path):
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


def damage_by_a_short_file(entry):
    path = entry / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-4])


def damage_by_a_lost_file(entry):
    (entry / "dev.labels.npy").unlink()


def damage_by_prose(entry):
    (entry / "entry.json").write_text("[1, 2]")


def damage_by_half_a_json(entry):
    (entry / "values.json").write_text((entry / "values.json").read_text()[:-20])


def damage_by_another_format(entry):
    value = json.loads((entry / "entry.json").read_text())
    (entry / "entry.json").write_text(json.dumps({**value, "format": -1}))


@pytest.mark.parametrize(
    "damage",
    [
        damage_by_a_flipped_byte,
        damage_by_a_short_file,
        damage_by_a_lost_file,
        damage_by_prose,
        damage_by_half_a_json,
        damage_by_another_format,
    ],
)
def test_damaged_entry_is_made_again(own, tmp_path, damage):
    first = prepare(own, tmp_path / "cache")
    good = {key: None if array is None else np.array(array) for key, array in arrays_of(first).items()}
    damage(tmp_path / "cache" / "encoded" / first.fingerprint)
    with pytest.raises(cache.DamagedEntry):
        cache.load(tmp_path / "cache" / "encoded" / first.fingerprint)
    second = prepare(own, tmp_path / "cache")
    for key, array in arrays_of(second).items():
        np.testing.assert_array_equal(array, good[key])
    cache.load(tmp_path / "cache" / "encoded" / first.fingerprint)


def test_damaged_note_of_a_digest_is_written_again(own, tmp_path):
    first = prepare(own, tmp_path / "cache")
    for note in (tmp_path / "cache" / "digests").iterdir():
        note.write_text("{")
    assert prepare(own, tmp_path / "cache").fingerprint == first.fingerprint


def _prepare_in_a_process(arguments):
    settings_, cache_directory = arguments
    data = prepare(settings_, cache_directory)
    return data.fingerprint, int(data.splits["train"].tokens_a.sum())


def test_processes_that_start_together(own, tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(_prepare_in_a_process, [(own, tmp_path / "cache")] * 4, chunksize=1)
    assert len(set(results)) == 1
    data = prepare(own, tmp_path / "cache")
    assert results[0] == (data.fingerprint, int(data.splits["train"].tokens_a.sum()))
    assert not [path for path in (tmp_path / "cache").rglob("*.partial")]


def test_settings_that_cannot_be_used(own, tmp_path):
    with pytest.raises(InputError, match="'own' brings no word vectors; name a file"):
        prepare(DataSettings("own", own.directory, own.task), tmp_path / "cache")
    with pytest.raises(InputError, match="no-such.txt: there is no such vector file"):
        prepare(DataSettings("own", own.directory, own.task, vectors=str(tmp_path / "no-such.txt")), tmp_path / "cache")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="the cache cannot be written"):
        prepare(own, tmp_path / "file")


def test_a_file_that_cannot_be_read_is_named_and_not_the_cache(own, tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(cache, "hash_file", refused)
    with pytest.raises(InputError, match=r"it cannot be read \(Permission denied\); ask its owner for it") as caught:
        prepare(own, tmp_path / "cache")
    assert caught.value.path.parent.samefile(own.directory) or caught.value.path.samefile(own.vectors)


def test_real_data_is_ready_soon_the_second_time(data_folder, tmp_path):
    vectors = data_folder / "vectors" / "minilm.300d.zip"
    real = DataSettings("sick", str(data_folder), vectors=str(vectors))
    first = prepare(real, tmp_path)
    assert {name: split.pairs for name, split in first.splits.items()} == {"train": 4500, "dev": 500, "test": 4927}
    assert first.vectors.shape == (len(first.vocabulary), 300) and first.report["broken_vector_lines"] == 0
    assert first.report["coverage"]["tokens_with_vector"] > 0.99
    started = time.perf_counter()
    assert_same(first, prepare(real, tmp_path))
    assert time.perf_counter() - started < 2.0


def test_embedded_data_brings_its_vectors(tmp_path):
    data = prepare(DataSettings("embedded_inference"), tmp_path)
    own = encoding.synthetic.word_vectors()
    assert data.report["vectors"] == f"embedded {encoding.synthetic.VERSION}"
    assert len(data.vocabulary) > 100 and data.report["coverage"]["words_with_vector"] == 1.0
    for number, word in enumerate(data.vocabulary.words[2:], start=2):
        np.testing.assert_array_equal(data.vectors[number], own[word])
    assert not data.vectors[:2].any()


# --- what else may lie in a cache, or happen to the files -------------------------------------------------------------


def test_what_killed_writers_left_is_removed(own, tmp_path):
    for folder in ("encoded", "digests"):
        (tmp_path / "cache" / folder).mkdir(parents=True)
    (tmp_path / "cache" / "encoded" / ".abc.999999.0123abcd.partial").mkdir()
    (tmp_path / "cache" / "encoded" / ".abc.999999.0123abcd.partial" / "vectors.npy").write_bytes(b"1")
    (tmp_path / "cache" / "digests" / ".abc.json.999999.0123abcd.partial").write_bytes(b"1")
    with files.directory_atomically(tmp_path / "cache" / "encoded" / "other"):  # a live writer's
        prepare(own, tmp_path / "cache")
        assert len([*(tmp_path / "cache").rglob("*.partial")]) == 1


def test_files_that_change_while_they_are_read_are_noticed(own, tmp_path, monkeypatch):
    """The entry would stand under the hash of what they were before."""
    whole = catalog.load

    def changing(*arguments, **keywords):
        data = whole(*arguments, **keywords)
        (tmp_path / "data" / "train.tsv").write_text(TRAIN.replace("cow", "cat"))
        return data

    monkeypatch.setattr(catalog, "load", changing)
    with pytest.raises(InputError, match="data: its files changed while they were read; start again"):
        prepare(own, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache" / "encoded").iterdir() if path.is_dir()]


@pytest.mark.parametrize("split", ["train", "dev"])
def test_texts_of_which_nothing_is_left_are_refused_before_training(own, tmp_path, split):
    path = tmp_path / "data" / f"{split}.tsv"
    header, *rows = path.read_text().splitlines()
    rows = ["\t".join(["?!", "...", *row.split("\t")[2:]]) for row in rows]
    path.write_text("\n".join([header, *rows]))
    for read in (lambda: prepare(own, tmp_path / "cache"), lambda: data_check.check(own)):
        with pytest.raises(
            InputError, match=f"{split}.tsv: no text of the {split} split of data set 'own' has a word left"
        ) as caught:
            read()
        assert "tokenizer 'word' without punctuation; keep punctuation (remove_punctuation)" in str(caught.value)
    prepare(dataclasses.replace(own, remove_punctuation=False), tmp_path / "cache")
    path.write_text("\n".join([header, *rows[:-1], rows[-1].replace("...", "word")]))
    prepare(own, tmp_path / "cache")


def test_a_folder_in_the_place_of_a_file_is_refused(own, tmp_path):
    (tmp_path / "data" / "test.tsv").mkdir()
    with pytest.raises(InputError, match="test.tsv: this is a folder, not a file"):
        prepare(own, tmp_path / "cache")
    (tmp_path / "data" / "test.tsv").rmdir()
    (tmp_path / "data" / "test.tsv").symlink_to("nowhere")
    with pytest.raises(InputError, match="test.tsv: this is a link to a file that is not there, not a file"):
        prepare(own, tmp_path / "cache")


def test_a_very_long_text_is_read(own, tmp_path):
    with open(tmp_path / "data" / "train.tsv", "a") as file:
        file.write("cat dog, " * 50_000 + "\tdog\t1\tq2\n")
    assert prepare(own, tmp_path / "cache").splits["train"].lengths_a.max() == 100_000
