"""Reading word vectors."""

import gzip
import os
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data import vectors
from jaxmatch.data.vectors import read_vectors
from jaxmatch.errors import InputError

TEXT = b"the 0.5 -1 2e-1\ncat 1 2 3\nThe 9 9 9\nDog 4 5 6\n"


class Everything:
    def __contains__(self, word):
        return True


def as_dictionary(found):
    return {word: found[word].tolist() for word in found.index}


@pytest.fixture(params=["plain", "gzip", "zip", "member"])
def written(request, tmp_path):
    """Writes bytes as a vector file of each kind and gives the path to read."""

    def write(content):
        if request.param == "plain":
            path = tmp_path / "some.3d.txt"
            path.write_bytes(content)
        elif request.param == "gzip":
            path = tmp_path / "some.3d.txt.gz"
            path.write_bytes(gzip.compress(content))
        else:
            path = tmp_path / "some.3d.zip"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("some.3d.txt", content)
                if request.param == "member":
                    archive.writestr("other.2d.txt", b"a 1 2\n")
            path = path / "some.3d.txt" if request.param == "member" else path
        return path

    return write


def test_every_kind_of_file_gives_the_same_rows(written):
    found, report = read_vectors(written(TEXT), {"the", "dog", "cow"})
    assert as_dictionary(found) == {"the": [0.5, -1.0, np.float32(0.2)], "dog": [4.0, 5.0, 6.0]}
    assert found.matrix.dtype == np.float32
    assert report == vectors.VectorReport("some.3d", dimensions=3, lines=4, kept=2)


def test_case_is_kept_without_lowercasing(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(TEXT)
    found, _ = read_vectors(path, {"The", "dog"}, lowercase=False)
    assert as_dictionary(found) == {"The": [9.0, 9.0, 9.0]}


def test_header_line_ends_trailing_spaces_and_words_with_spaces_are_parsed(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(b"4 3\r\ncat 1 2 3 \r\n. . . 4 5 6\r\n\r\n\f\n \v\t\nnew york 7 8 9\r\n\xc2\xa0 1 1 1")
    found, report = read_vectors(path, Everything())
    assert as_dictionary(found) == {"cat": [1, 2, 3], ". . .": [4, 5, 6], "new york": [7, 8, 9], "\xa0": [1, 1, 1]}
    assert (report.lines, report.broken) == (4, 0)


@pytest.mark.parametrize("between", [b" ", b"\t"])
@pytest.mark.parametrize("end", [b"", b" "])
@pytest.mark.parametrize("start", [b"", b"3 2\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf3 2\n"])
def test_numeric_words_are_read_and_a_byte_order_mark_is_skipped(tmp_path, between, end, start):
    path = tmp_path / "v.txt"
    path.write_bytes(
        start + b"".join(between.join([word, b"0.5", b"1"]) + end + b"\n" for word in (b"2000", b"1", b"a"))
    )
    found, report = read_vectors(path, Everything())
    assert as_dictionary(found) == dict.fromkeys(("2000", "1", "a"), [0.5, 1.0]) and report.broken == 0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"dog 4 5", "line 3: 2 numbers instead of 3"),
        (b"dog", "line 3: 0 numbers instead of 3"),
        (b"dog 4 5 6 7", "line 3: more than 3 numbers"),
        (b"dog 4 five 6", "line 3: a value that is not a finite number"),
        (b"dog 4 nan 6", "line 3: a value that is not a finite number"),
        (b"dog 4 1e99 6", "line 3: a value that is not a finite number"),
        (b"dog 4 1-2 6", "line 3: a value that is not a finite number"),
        (b"d\xffg 4 5 6", "line 3: a word that is not UTF-8"),
    ],
)
def test_broken_lines_are_counted_described_and_left_out(tmp_path, line, problem):
    path = tmp_path / "v.txt"
    path.write_bytes(b"the 1 2 3\ncat 1 2 3\n" + line + b"\ncow 7 8 9\n")
    found, report = read_vectors(path, Everything())
    assert sorted(found.index) == ["cat", "cow", "the"]
    assert (report.broken, report.broken_examples, report.lines) == (1, (problem,), 4)


@pytest.mark.parametrize("end", [b"\n", b""], ids=["word2vec", "gensim"])
@pytest.mark.parametrize("block", [64, 1 << 22])
def test_binary_vectors_of_word2vec_are_read(written, monkeypatch, end, block):
    monkeypatch.setattr(vectors, "BLOCK_BYTES", block)
    monkeypatch.setattr(vectors, "LONGEST_LINE", 32)
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    rows[0] = ord("\n"), 0.5, np.frombuffer(b"\n\n 1", np.float32)[0]
    rows[3, 1] = np.nan
    names = [b"The", b"new_york", b"d\xffg", *(b"w%d" % number for number in range(3, 50))]
    content = b"50 3\n" + b"".join(name + b" " + row.tobytes() + end for name, row in zip(names, rows, strict=True))
    found, report = read_vectors(written(content), {"the", "w3", *(f"w{number}" for number in range(4, 50, 5))})
    assert list(found.index) == ["the", *(f"w{number}" for number in range(4, 50, 5))]
    np.testing.assert_array_equal(found.matrix, rows[[0, *range(4, 50, 5)]])
    assert (report.name, report.dimensions, report.lines, report.kept) == ("some.3d", 3, 50, 11)
    assert report.broken_examples == (
        "word 3: a word that is not UTF-8",
        "word 4: a value that is not a finite number",
    )
    with pytest.raises(InputError, match="some.3d[^ ]*: the file ends inside word 50; fetch it again"):
        read_vectors(written(content[:-3]), ())


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6).filter(
            lambda word: word == word.lower()
        ),
        st.lists(st.floats(-1e9, 1e9, width=32), min_size=4, max_size=4),
        min_size=1,
        max_size=30,
    ),
    st.data(),
)
@settings(max_examples=50, deadline=None)
def test_written_vectors_round_trip(tmp_path_factory, table, data):
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    text = "".join(f"{word} {' '.join(map(repr, row))}\n" for word, row in table.items())
    path.write_bytes(text.encode())
    wanted = data.draw(st.sets(st.sampled_from(sorted(table))))
    found, report = read_vectors(path, wanted)
    assert set(found.index) == wanted
    for word in wanted:
        np.testing.assert_array_equal(found[word], np.array(table[word], np.float32))
    assert (report.kept, report.lines, report.broken) == (len(wanted), len(table), 0)


def test_unusable_vector_files_are_errors(tmp_path):
    with pytest.raises(InputError, match="no-such.txt: there is no such vector file"):
        read_vectors(tmp_path / "no-such.txt", ())
    with pytest.raises(InputError, match="this is a folder"):
        read_vectors(tmp_path, ())
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(InputError, match="not a file of word vectors"):
        read_vectors(tmp_path / "empty.txt", ())
    (tmp_path / "prose.txt").write_text("once upon a time\nthere was a\n")
    with pytest.raises(InputError, match="prose.txt: no line holds a word vector"):
        read_vectors(tmp_path / "prose.txt", ())
    (tmp_path / "six.txt").write_text("8 5\n" + "cat 1 2 3 4 5 6\n" * 8)
    with pytest.raises(
        InputError, match="six.txt: the first line states 5 dimensions, the other lines hold 6 numbers; a line"
    ):
        read_vectors(tmp_path / "six.txt", ())
    with tarfile.open(tmp_path / "one.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "six.txt", "six.txt")
    with pytest.raises(InputError, match="one.tar.gz: this is neither text nor word2vec's binary format; name a file"):
        read_vectors(tmp_path / "one.tar.gz", ())
    (tmp_path / "half.txt.gz").write_bytes(gzip.compress(TEXT * 50)[:-20])
    with pytest.raises(
        InputError, match="half.txt.gz: the word vectors cannot be read .*; if the file is damaged, fetch"
    ):
        read_vectors(tmp_path / "half.txt.gz", ())
    (tmp_path / "no.zip").write_bytes(TEXT)
    with pytest.raises(InputError, match="no.zip: the word vectors cannot be read .File is not a zip file"):
        read_vectors(tmp_path / "no.zip", ())
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.txt", TEXT)
        archive.writestr("b.txt", TEXT)
    with pytest.raises(
        InputError, match=r"holds 2 files: 'a.txt', 'b.txt'; name one of them behind the archive: two.zip/NAME"
    ):
        read_vectors(tmp_path / "two.zip", ())
    with pytest.raises(InputError, match="holds no 'c.txt'; it holds 'a.txt', 'b.txt'"):
        read_vectors(tmp_path / "two.zip" / "c.txt", ())
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        for number in range(20):
            archive.writestr(f"\x1b[2J\r{number}.txt", TEXT)
    for path in (tmp_path / "odd.zip", tmp_path / "odd.zip" / "c.txt"):
        with pytest.raises(InputError) as caught:
            read_vectors(path, ())
        assert str(caught.value).isprintable() and len(str(caught.value)) < 400


@pytest.mark.parametrize("kind, make", [("a pipe", os.mkfifo), ("a device", lambda path: path.symlink_to("/dev/zero"))])
def test_pipes_and_devices_are_refused(tmp_path, kind, make):
    for name in ("v.txt", "v.txt.gz", "v.zip"):
        make(tmp_path / name)
        with pytest.raises(InputError, match=f"{name}: this is {kind}, not a file"):
            read_vectors(tmp_path / name, ())


def test_an_endless_line_is_broken_and_not_held_in_memory(tmp_path):
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(TEXT * 20 + b"1" * (1 << 27), 1))
    tracemalloc.start()
    try:
        found, report = read_vectors(path, Everything())
        assert (sorted(found.index), report.broken) == (["cat", "dog", "the"], 128)
        assert report.broken_examples[0] == "line 81: 0 numbers instead of 3"
        assert tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_any_damage_to_an_archive_gives_vectors_or_one_clear_error(tmp_path, method):
    path = tmp_path / "v.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("v.txt", TEXT)
    whole, random = path.read_bytes(), np.random.default_rng(1)
    for _ in range(150):
        content = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            content[place] ^= 1 << random.integers(8)
        path.write_bytes(content[: random.integers(1, len(whole) + 1)] if random.random() < 0.2 else content)
        try:
            read_vectors(path, Everything())
        except InputError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
