"""A saved search index is loaded unchanged, and an error about its files is one line."""

import json

import numpy as np
import pytest
import saved_model
from saved_model import save

import jaxmatch
from jaxmatch.cli.main import main
from jaxmatch.data.vectors import hashed_vectors
from jaxmatch.errors import InputError
from jaxmatch.inference import search

QUERY = "a b c"


@pytest.fixture(scope="module")
def texts():
    return saved_model.texts(60)


@pytest.fixture(scope="module")
def matcher(binary):
    return jaxmatch.load(binary)


@pytest.mark.parametrize("prefilter", ["vectors", "bm25"])
def test_saved_index_returns_the_same_results(matcher, binary, texts, prefilter, tmp_path):
    odd = [*texts, 'a "quoted"\u2028line\nb', "\U0001f600 é"]
    index = matcher.index(odd, prefilter)
    for _ in range(2):  # an existing index is replaced
        index.save(tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    loaded = jaxmatch.load(binary).load_index(tmp_path / "index")
    assert loaded.texts == tuple(odd) and loaded.prefilter == prefilter
    assert loaded.search(QUERY, candidates=20) == index.search(QUERY, candidates=20)


def test_folder_of_other_files_is_not_replaced_by_an_index(matcher, texts, tmp_path):
    (tmp_path / "letters").write_text("dear")
    with pytest.raises(InputError, match="there is something else than an index: 'letters'; name a new folder"):
        matcher.index(texts).save(tmp_path)
    assert (tmp_path / "letters").read_text() == "dear"
    (tmp_path / "empty").mkdir()
    matcher.index(texts).save(tmp_path / "empty")
    assert matcher.load_index(tmp_path / "empty").texts == tuple(texts)


def _content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["prefilter/mine.txt", "notes/a.txt"])
def test_index_folder_with_an_extra_file_is_not_replaced(matcher, texts, tmp_path, name):
    folder = tmp_path / "index"
    matcher.index(texts).save(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = _content(folder)
    with pytest.raises(InputError, match=f"there is something else than an index: '{name[:5]}.*; name a new folder"):
        matcher.index(texts).save(folder)
    assert _content(folder) == before


@pytest.mark.parametrize("description", ["[]", "no JSON", '{"sha256": ["a.css"]}', '{"sha256": {"b.css": ""}}'])
def test_a_folder_with_another_index_json_is_not_replaced(matcher, texts, tmp_path, description):
    (tmp_path / "index.json").write_text(description)
    (tmp_path / "a.css").write_text("mine")
    before = _content(tmp_path)
    with pytest.raises(InputError, match="there is something else than an index.*; name a new folder"):
        matcher.index(texts).save(tmp_path)
    assert _content(tmp_path) == before


def test_a_damaged_index_or_one_of_other_words_is_refused(matcher, texts, tmp_path):
    matcher.index(texts).save(tmp_path / "index")
    other = jaxmatch.load(save(tmp_path / "run", labels=("0", "1"), vectors=2 * saved_model.vectors()))
    with pytest.raises(InputError, match="was made with other words, vectors or preprocessing"):
        other.load_index(tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    described = json.loads(path.read_text())
    for changed, problem in (({"format": 2}, "is not an index of format 1"), ({"sha256": {}}, "the index is damaged")):
        path.write_text(json.dumps(described | changed))
        with pytest.raises(InputError, match=problem):
            matcher.load_index(tmp_path / "index")
    path.write_text(json.dumps(described))
    (tmp_path / "index" / "texts.jsonl").write_text('"a"\n')
    with pytest.raises(InputError, match="texts.jsonl: is damaged: its checksum"):
        matcher.load_index(tmp_path / "index")
    with pytest.raises(InputError, match="holds no index"):
        matcher.load_index(tmp_path)


def test_search_command_reports_the_same_lines_for_texts_and_for_an_index(binary, tmp_path, capsys):
    stored, index = tmp_path / "texts.csv", tmp_path / "index"
    stored.write_text('text,id\na b,1\n"c\nd",2\ne,3\n')
    words = ["--query", QUERY, "--top-k", "3"]
    assert main(["search", str(binary), "--texts", str(stored), "--save", str(index), *words]) == 0
    answers = capsys.readouterr().out
    found = {answer["text"]: answer["line"] for answer in map(json.loads, answers.splitlines())}
    assert found == {"a b": 2, "c\nd": 3, "e": 5}
    assert main(["search", str(binary), "--index", str(index), *words]) == 0
    assert capsys.readouterr().out == answers


@pytest.fixture(scope="module")
def hashed(tmp_path_factory):
    """A model with hashed word vectors, which are computed from the spelling."""
    table = np.concatenate([np.zeros((2, 300), np.float32), hashed_vectors(saved_model.WORDS[2:])])
    config = {"data": {"name": "own", "vectors": "hashed"}, "model": saved_model.SETTINGS}
    options = {"labels": ("0", "1"), "params": saved_model.parameters(2, dimensions=300)}
    return jaxmatch.load(save(tmp_path_factory.mktemp("hashed") / "run", vectors=table, config=config, **options))


def test_words_outside_the_vocabulary_have_hashed_vectors(hashed, matcher, tmp_path):
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("bcdfghjklm"), 9)) for _ in range(40)] + ["a zebrafications"]
    index = hashed.index(texts)
    found = index.search("zebrafication", candidates=5)
    assert 40 in [one.index for one in found]
    vector = hashed_vectors(["a", "zebrafications"]).sum(axis=0)
    (mean,) = search.mean_vectors(hashed, ["a zebrafications"])
    np.testing.assert_allclose(mean, vector / np.linalg.norm(vector), rtol=1e-4)
    index.save(tmp_path / "index")
    assert hashed.load_index(tmp_path / "index").search("zebrafication", candidates=5) == found
    assert not search.mean_vectors(matcher, ["zebrafications"]).any()
