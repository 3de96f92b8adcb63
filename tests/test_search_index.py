"""The folder of a search index: what is written is read back, and what does not fit is one line."""

import json

import numpy as np
import pytest
import saved_model
from saved_model import save

import jaxmatch
from jaxmatch.errors import InputError

LETTERS = [word for word in saved_model.WORDS if len(word) == 1 and word.isalpha()]
QUERY = "a b c"


@pytest.fixture(scope="module")
def texts():
    generator = np.random.default_rng(0)
    return [" ".join(generator.choice(LETTERS, generator.integers(1, 7))) for _ in range(60)]


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    return save(tmp_path_factory.mktemp("binary") / "run", labels=("0", "1"))


@pytest.fixture(scope="module")
def matcher(binary):
    return jaxmatch.load(binary)


@pytest.mark.parametrize("prefilter", ["vectors", "bm25"])
def test_a_saved_index_finds_the_same(matcher, binary, texts, prefilter, tmp_path):
    odd = [*texts, 'a "quoted"\u2028line\nb', "\U0001f600 é"]
    index = matcher.index(odd, prefilter)
    for _ in range(2):  # an index that is there is replaced
        index.save(tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    loaded = jaxmatch.load(binary).load_index(tmp_path / "index")
    assert loaded.texts == tuple(odd) and loaded.prefilter == prefilter
    assert loaded.search(QUERY, candidates=20) == index.search(QUERY, candidates=20)


def test_a_folder_of_something_else_is_not_replaced(matcher, texts, tmp_path):
    (tmp_path / "letters").write_text("dear")
    with pytest.raises(InputError, match="there is something else than an index; name a new folder"):
        matcher.index(texts).save(tmp_path)
    assert (tmp_path / "letters").read_text() == "dear"


def _content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["a.css", "prefilter/mine.txt", "notes/a.txt"])
def test_an_index_beside_another_file_is_not_replaced(matcher, texts, tmp_path, name):
    folder = tmp_path / "index"
    matcher.index(texts).save(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = _content(folder)
    with pytest.raises(InputError, match=f"there is something else than an index: '{name[:5]}.*; name a new folder"):
        matcher.index(texts).save(folder)
    assert _content(folder) == before


@pytest.mark.parametrize("description", ["{}", "[]", "no JSON", '{"sha256": ["a.css"]}', '{"sha256": {"b.css": ""}}'])
def test_a_folder_with_another_index_json_is_not_replaced(matcher, texts, tmp_path, description):
    (tmp_path / "index.json").write_text(description)
    (tmp_path / "a.css").write_text("mine")
    before = _content(tmp_path)
    with pytest.raises(InputError, match="there is something else than an index.*; name a new folder"):
        matcher.index(texts).save(tmp_path)
    assert _content(tmp_path) == before


def test_a_damaged_index_is_refused(matcher, texts, tmp_path):
    matcher.index(texts).save(tmp_path / "index")
    (tmp_path / "index" / "texts.jsonl").write_text('"a"\n')
    with pytest.raises(InputError, match="texts.jsonl: is damaged: its checksum"):
        matcher.load_index(tmp_path / "index")
    with pytest.raises(InputError, match="holds no index"):
        matcher.load_index(tmp_path)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"format": 2}, "is not an index of format 1"),
        ({"prefilter": "luck"}, "is damaged"),
        ({"texts": 7}, "is damaged: 60 texts, 60 in the prefilter, 7 expected; make the index again"),
        ({"sha256": {"../../model.json": "", "texts.jsonl": ""}}, "names a file outside the folder"),
    ],
)
def test_an_index_whose_description_does_not_fit_is_refused(matcher, texts, tmp_path, changed, problem):
    matcher.index(texts).save(tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(InputError, match=problem):
        matcher.load_index(tmp_path / "index")


def test_an_index_of_another_vocabulary_is_refused(matcher, texts, tmp_path):
    matcher.index(texts).save(tmp_path / "index")
    other = jaxmatch.load(save(tmp_path / "run", labels=("0", "1"), vectors=2 * saved_model.vectors()))
    with pytest.raises(InputError, match="was made with other words, vectors or preprocessing"):
        other.load_index(tmp_path / "index")
