"""Reading word vectors."""

import gzip
import hashlib
import zipfile

import numpy as np
import pytest
import saved_model
from hypothesis import given
from hypothesis import strategies as st

import jaxmatch
from jaxmatch.data import vectors
from jaxmatch.data.encoding import DataSettings, prepare
from jaxmatch.data.vectors import VectorReport, hashed_vectors, read_vectors
from jaxmatch.errors import InputError

TEXT = b"the 0.5 -1 2e-1\ncat 1 2 3\nThe 9 9 9\nDog 4 5 6\n"


class Everything:
    def __contains__(self, word):
        return True


EVERYTHING = Everything()


def read(path, content=TEXT, words=EVERYTHING, **options):
    """Writes a file of vectors. Returns word -> the list of its numbers, and the report."""
    path.write_bytes(content)
    found, report = read_vectors(path, words, **options)
    return {word: row.tolist() for word, row in found.items()}, report


def zipped(path, **contents):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"{name}.3d.txt", content)
    return path


@pytest.mark.parametrize("kind", ["plain", "gzip", "zip", "member"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path, kind):
    path = tmp_path / ("some.3d.txt.gz" if kind == "gzip" else "some.3d.txt")
    path.write_bytes(gzip.compress(TEXT) if kind == "gzip" else TEXT)
    if kind == "zip":
        path = zipped(tmp_path / "some.3d.zip", some=TEXT)
    if kind == "member":
        path = zipped(tmp_path / "all.zip", some=TEXT, other="a 1 2\n") / "some.3d.txt"
    found, report = read_vectors(path, {"the", "dog", "cow"})
    assert {word: row.tolist() for word, row in found.items()} == {
        "the": [0.5, -1.0, np.float32(0.2)],
        "dog": [4.0, 5.0, 6.0],
    }
    assert found["the"].dtype == np.float32 and report == VectorReport("some.3d", dimensions=3, lines=4)


def test_case_is_kept_without_lowercasing(tmp_path):
    assert read(tmp_path / "v.txt", words={"The", "dog"}, lowercase=False)[0] == {"The": [9.0, 9.0, 9.0]}


def test_header_line_ends_trailing_spaces_and_words_with_spaces_are_parsed(tmp_path):
    text = b"4 3\r\ncat 1 2 3 \r\n. . . 4 5 6\r\n\r\n\f\n \v\t\nnew york 7 8 9\r\n\xc2\xa0 1 1 1"
    found, report = read(tmp_path / "v.txt", text)
    assert found == {"cat": [1, 2, 3], ". . .": [4, 5, 6], "new york": [7, 8, 9], "\xa0": [1, 1, 1]}
    assert (report.lines, report.broken) == (4, 0)


@pytest.mark.parametrize("between", [b" ", b"\t"])
@pytest.mark.parametrize("start", [b"", b"3 2\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf3 2\n"])
def test_numeric_words_are_read_and_a_byte_order_mark_is_skipped(tmp_path, between, start):
    lines = [between.join([word, b"0.5", b"1"]) for word in (b"2000", b"1", b"a")]
    found, report = read(tmp_path / "v.txt", start + b"\n".join(lines))
    assert found == dict.fromkeys(("2000", "1", "a"), [0.5, 1.0]) and report.broken == 0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"dog 4 5", "2 numbers instead of 3"),
        (b"dog 4 5 6 7", "more than 3 numbers"),
        (b"dog 4 five 6", "a value that is not a finite number"),
        (b"dog 4 1e99 6", "a value that is not a finite number"),
        (b"d\xffg 4 5 6", "a word that is not UTF-8"),
    ],
)
def test_broken_lines_are_counted_described_and_left_out(tmp_path, line, problem):
    found, report = read(tmp_path / "v.txt", b"the 1 2 3\ncat 1 2 3\n" + line + b"\ncow 7 8 9\n")
    assert sorted(found) == ["cat", "cow", "the"]
    assert (report.broken, report.broken_examples, report.lines) == (1, (f"line 3: {problem}",), 4)


@pytest.mark.parametrize("end", [b"\n", b""], ids=["word2vec", "gensim"])
@pytest.mark.parametrize("block", [64, 1 << 22])
def test_binary_vectors_of_word2vec_are_read(tmp_path, monkeypatch, end, block):
    monkeypatch.setattr(vectors, "_BLOCK_BYTES", block)
    monkeypatch.setattr(vectors, "_LONGEST_WORD", 32)
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    rows[0] = ord("\n"), 0.5, np.frombuffer(b"\n\n 1", np.float32)[0]
    rows[3, 1] = np.nan
    names = [b"The", b"new_york", b"d\xffg", *(b"w%d" % number for number in range(3, 50))]
    content = b"50 3\n" + b"".join(name + b" " + row.tobytes() + end for name, row in zip(names, rows, strict=True))
    path = tmp_path / "some.3d.bin.gz"
    path.write_bytes(gzip.compress(content))
    found, report = read_vectors(path, {"the", "w3", *(f"w{number}" for number in range(4, 50, 5))})
    assert list(found) == ["the", *(f"w{number}" for number in range(4, 50, 5))]
    np.testing.assert_array_equal(np.stack(list(found.values())), rows[[0, *range(4, 50, 5)]])
    assert (report.name, report.dimensions, report.lines) == ("some.3d", 3, 50)
    assert report.broken_examples == ("word 3: a word that is not UTF-8", "word 4: a value that is not a finite number")
    path.write_bytes(gzip.compress(content[:-3]))
    with pytest.raises(InputError, match="some.3d[^ ]*: the file ends inside word 50; fetch it again"):
        read_vectors(path, ())


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("empty.txt", b"", "empty.txt:1: this is not a file of word vectors"),
        ("zeros.tar.gz", gzip.compress(b"six.txt\0\0\0\0" + TEXT), "gz:1: this is not a file of word vectors; name a"),
        (
            "six.txt",
            b"8 5\n" + b"cat 1 2 3 4 5 6\n" * 8,
            "six.txt: the first line states 5 dimensions, and no line holds",
        ),
        ("prose.txt", b"once upon a time\nthere was a\n", "prose.txt: no line holds a word and 3 numbers"),
        ("half.txt.gz", gzip.compress(TEXT * 50)[:-20], "half.txt.gz: the word vectors cannot be read .*; if"),
        ("no.zip", TEXT, "no.zip: the word vectors cannot be read .File is not a zip file"),
    ],
)
def test_unusable_vector_files_are_errors(tmp_path, name, content, problem):
    with pytest.raises(InputError, match=problem):
        read(tmp_path / name, content)


def test_missing_files_and_members_of_archives_are_errors(tmp_path):
    path = zipped(tmp_path / "two.zip", a=TEXT, b=TEXT)
    for missing, problem in (
        (tmp_path / "no-such.txt", "no-such.txt: there is no such vector file"),
        (tmp_path, "this is not a file"),
        (path, "holds 'a.3d.txt', 'b.3d.txt'; name one of them behind the archive: two.zip/NAME"),
        (path / "c.txt", "holds 'a.3d.txt', 'b.3d.txt', not 'c.txt'; name"),
    ):
        with pytest.raises(InputError, match=problem):
            read_vectors(missing, ())


# --- hashed vectors


def signs(gram):
    bits = "".join(f"{byte:08b}" for byte in hashlib.blake2b(gram.encode(), digest_size=38).digest())
    return np.array([1 if bit == "1" else -1 for bit in bits[:300]])


def test_a_vector_is_the_scaled_sum_of_its_n_gram_hashes():
    long = "<international>"
    for word, grams in {
        "a": ["<a>"],
        "toes": ["<to", "toe", "oes", "es>", "<toe", "toes", "oes>", "<toes", "toes>", "<toes>"],
        "international": {long, *(long[i : i + n] for n in (3, 4, 5, 6) for i in range(len(long) - n + 1))},
    }.items():
        total = sum(map(signs, grams))
        np.testing.assert_allclose(hashed_vectors([word])[0], 6 * total / np.linalg.norm(total), rtol=1e-6)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5))
def test_every_text_has_a_vector_independent_of_the_other_words(words):
    table = hashed_vectors(words)
    assert table.shape == (len(words), 300) and table.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), 6, rtol=1e-5)
    for word, vector in zip(words, table, strict=True):
        np.testing.assert_array_equal(hashed_vectors([word])[0], vector)


@pytest.fixture
def own(tmp_path):
    (tmp_path / "train.tsv").write_text("text_a\ttext_b\tlabel\nthe cat\ta dog\tx\nthe end\tthe cow\ty\n")
    return DataSettings("own", directory=str(tmp_path))


def test_every_word_of_the_data_has_a_hashed_vector(own, tmp_path):
    data = prepare(DataSettings("own", own.directory, vectors="hashed"), tmp_path / "cache")
    assert set(data.vocabulary.words[2:]) == {"the", "cat", "a", "dog", "end", "cow"}
    np.testing.assert_array_equal(data.vectors[2:], hashed_vectors(data.vocabulary.words[2:]))
    assert not data.vectors[:2].any()
    assert data.report["vectors"] == "hashed character n-grams"
    assert data.report["coverage"]["tokens_with_vector"] == 1
    # Without vectors, the words that occur often enough remain, and their vectors are trained.
    bare = prepare(DataSettings("own", own.directory, vectors="none", minimum_count=2), tmp_path / "cache")
    assert bare.vocabulary.words[2:] == ("the",) and bare.vectors.shape == (3, 300) and not bare.vectors.any()
    assert bare.fingerprint != data.fingerprint
    with pytest.raises(InputError, match="use --vectors hashed"):
        prepare(own, tmp_path / "cache")


def loaded(folder, words="fixed"):
    settings = {**saved_model.SETTINGS, "words": words}
    config = {"data": {"name": "own", "vectors": "hashed"}, "model": settings}
    table = np.concatenate([np.zeros((2, 300), np.float32), hashed_vectors(saved_model.WORDS[2:])])
    params = saved_model.parameters(3, dimensions=300)
    return jaxmatch.load(saved_model.save(folder, vectors=table, params=params, config=config))


def test_a_word_unseen_in_training_has_its_hashed_vector(tmp_path):
    model = loaded(tmp_path / "run")
    pairs = [("a zebra", "b"), ("a quagga", "b"), ("a b", "zebra c")]
    together = model.logits(pairs)
    assert np.abs(together[0] - together[1]).max() > 1e-3
    for pair, logits in zip(pairs, together, strict=True):
        np.testing.assert_allclose(model.logits([pair])[0], logits, atol=1e-4)
    table = np.asarray(model.encoded(pairs).words)
    np.testing.assert_array_equal(table[12:14], hashed_vectors(["zebra", "quagga"]))
    model.warmup(range(2, 4))


def test_unseen_words_are_unknown_if_word_vectors_were_trained(tmp_path):
    first, second = loaded(tmp_path / "run", words="trained").logits([("a zebra", "b"), ("a quagga", "b")])
    np.testing.assert_array_equal(first, second)
