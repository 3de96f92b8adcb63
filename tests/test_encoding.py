"""Encoding of texts as arrays, and its cache."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from own_data_set import DEV, own_data, words_of

from jaxmatch.data import data_check
from jaxmatch.data.encoding import DataSettings, EncodedSplit, prepare
from jaxmatch.errors import InputError


@pytest.fixture
def own(tmp_path):
    return own_data(tmp_path)


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
    with pytest.raises(
        InputError, match="data.drop_from_length = 4 drops nothing: data.maximum_length cuts texts to 3 tokens"
    ):
        prepared(drop_from_length=4, maximum_length=3)


def test_vectors_of_too_few_tokens_are_refused(own, tmp_path):
    assert prepare(own, tmp_path / "cache").report["warnings"] == ["only 47.4% of all tokens have a vector in some.2d"]
    most = dataclasses.replace(own, minimum_coverage=9 / 19)
    assert prepare(most, tmp_path / "cache").report == prepare(own, tmp_path / "cache").report
    Path(own.vectors).write_text("end 1 2\nanother 3 4\n")
    for _ in range(2):  # also if the data was encoded before
        with pytest.raises(
            InputError, match=r"some.2d.txt: only 5.3% of all tokens have a vector; .*minimum_coverage=0"
        ):
            prepare(own, tmp_path / "cache")
    assert prepare(dataclasses.replace(own, minimum_coverage=0), tmp_path / "cache").fingerprint
    for words in ("none", "hashed"):
        assert prepare(dataclasses.replace(own, vectors=words), tmp_path / "cache").report["warnings"] == []


def test_missing_vectors_and_unwritable_cache_are_refused(own, tmp_path):
    with pytest.raises(InputError, match="'own' has no word vectors of its own; name a file"):
        prepare(DataSettings("own", own.directory, own.task), tmp_path / "cache")
    with pytest.raises(InputError, match="no-such.txt: there is no such vector file"):
        prepare(DataSettings("own", own.directory, own.task, vectors=str(tmp_path / "no-such.txt")), tmp_path / "cache")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="the cache cannot be written"):
        prepare(own, tmp_path / "file")


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
