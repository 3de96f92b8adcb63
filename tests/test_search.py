"""Search finds the best of many texts: the prefilter chooses candidates among all texts, and the model ranks them."""

import json
import sys

import bm25s
import numpy as np
import pytest
import saved_model
from saved_model import save

import jaxmatch
from jaxmatch.cli import models
from jaxmatch.cli.main import main
from jaxmatch.data.pairs import Split
from jaxmatch.data.vectors import hashed_vectors
from jaxmatch.errors import InputError
from jaxmatch.inference import search
from jaxmatch.inference.calibration import Calibration
from jaxmatch.inference.matcher import Candidate

QUERY = "a b c"


@pytest.fixture(scope="module")
def texts():
    return saved_model.texts(60)


@pytest.fixture(scope="module")
def matcher(binary):
    return jaxmatch.load(binary)


def test_candidates_are_ordered_by_the_probability_of_a_match(matcher, texts):
    found = matcher.rank(QUERY, texts)
    probabilities = [one.probabilities["1"] for one in matcher.predict([(QUERY, text) for text in texts])]
    assert sorted(one.index for one in found) == list(range(len(texts)))
    for one in found:
        assert one == Candidate(one.index, texts[one.index], pytest.approx(probabilities[one.index], abs=1e-6))
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert matcher.rank(QUERY, texts, top_k=3) == found[:3]
    assert [one.index for one in matcher.rank(QUERY, ["b", "a", "b"])] in ([0, 2, 1], [1, 0, 2])  # equal ones in order


def test_the_order_is_that_of_calibrated_probabilities(run, monkeypatch):
    model = jaxmatch.load(run)
    logits = np.array([[2.0, 1.9, -10.0], [2.0, 1.0, 1.0]], np.float32)
    monkeypatch.setattr(type(model), "logits", lambda self, pairs: logits)
    label = model.labels[0]
    assert [one.index for one in model.rank(QUERY, ["a", "b"], label=label)] == [1, 0]
    monkeypatch.setattr(model, "calibration", Calibration(temperature=5.0))
    found = model.rank(QUERY, ["a", "b"], label=label)
    assert [one.index for one in found] == [0, 1] and found[0].score > found[1].score


def test_match_label_is_optional_with_two_labels_and_required_with_three(matcher, texts, run, tmp_path, monkeypatch):
    falling = [one.index for one in matcher.rank(QUERY, texts, label="0")]
    assert np.array_equal(sorted(falling), range(len(texts)))
    least = [one.probabilities["0"] for one in matcher.predict([(QUERY, texts[index]) for index in falling])]
    np.testing.assert_allclose(least, sorted(least, reverse=True), atol=1e-6)
    with monkeypatch.context() as patch:  # a calibrated model ranks by the label that its threshold is for
        patch.setattr(matcher, "calibration", Calibration(positive="0"))
        assert [one.index for one in matcher.rank(QUERY, texts)] == falling
    several = jaxmatch.load(run)
    with pytest.raises(InputError, match="3 labels .*; name the one that means a match"):
        several.rank(QUERY, texts)
    best = several.rank(QUERY, texts, top_k=1, label="neutral")[0]
    likely = [one.probabilities["neutral"] for one in several.predict([(QUERY, text) for text in texts])]
    assert best.index == int(np.argmax(likely))
    regression = jaxmatch.load(save(tmp_path / "run", task="regression", labels=()))
    scores = [one.score for one in regression.predict([(QUERY, text) for text in texts])]
    assert regression.rank(QUERY, texts)[0].index == int(np.argmax(scores))
    for model, label in ((regression, "1"), (matcher, "2")):
        with pytest.raises(InputError, match=f"'{label}' is not one"):
            model.rank(QUERY, texts, label=label)


def test_invalid_arguments_of_rank_and_index_raise(matcher, texts):
    assert matcher.rank(QUERY, []) == []
    with pytest.raises(ValueError, match="top_k is 0"):
        matcher.rank(QUERY, texts, top_k=0)
    with pytest.raises(TypeError, match="not a pair of two strings"):
        matcher.rank(QUERY, ["a", None])
    for function in (lambda: matcher.rank(QUERY, "abc"), lambda: matcher.index("abc")):
        with pytest.raises(TypeError, match="single text 'abc': give a list"):
            function()
    with pytest.raises(TypeError, match="text 1 is None"):
        matcher.index(["a", None])
    with pytest.raises(InputError, match="there are no texts"):
        matcher.index([])
    with pytest.raises(InputError, match="no prefilter 'luck'; use one of vectors, bm25"):
        matcher.index(texts, "luck")
    with pytest.raises(ValueError, match="candidates is 0"):
        matcher.index(texts).search(QUERY, candidates=0)


@pytest.mark.parametrize("prefilter", ["vectors", "bm25"])
def test_a_search_ranks_what_the_prefilter_found(matcher, texts, prefilter):
    index = matcher.index(texts, prefilter)
    index.mix = 0
    assert index.search(QUERY, top_k=len(texts), candidates=len(texts)) == matcher.rank(QUERY, texts)
    if prefilter == "vectors":
        table = dict(zip(saved_model.WORDS, saved_model.vectors(), strict=True))

        def mean(text):
            vector = np.mean([table[token] for token in text.split()], axis=0)
            return vector / np.linalg.norm(vector)

        scores = np.array([mean(text) @ mean(QUERY) for text in texts])
    else:
        reference = bm25s.BM25()
        reference.index([text.split() for text in texts], show_progress=False)
        scores = reference.get_scores(QUERY.split())
    np.testing.assert_allclose(index.scores(QUERY), scores, atol=1e-6)
    found = index.search(QUERY, top_k=50, candidates=10)
    assert len(found) == 10 and all(scores[one.index] >= np.sort(scores)[-10] - 1e-6 for one in found)
    ranked = matcher.rank(QUERY, [texts[index] for index in sorted(one.index for one in found)])
    assert [one.text for one in found] == [one.text for one in ranked]


@pytest.mark.parametrize("prefilter", ["vectors", "bm25"])
def test_a_weak_model_finds_a_stored_text_again_with_the_mix_that_dev_chooses(matcher, texts, prefilter):
    """The model has random weights. On dev, matching texts are those with the same words."""
    index = matcher.index(texts, prefilter, mix=0)
    assert any(text not in [one.text for one in index.search(text)] for text in texts[:9])
    shuffled = [" ".join(reversed(text.split())) for text in texts]
    labels = ["1", "0"] * (len(texts) // 2)
    index.mix, rank = search.chosen_mix(matcher, Split(shuffled, texts, labels), prefilter)
    assert index.mix > 0 and rank > 0.8
    for text in texts[:9]:
        assert text in [one.text for one in index.search(text, top_k=3)]


def test_the_score_of_a_search_mixes_the_probability_with_the_prefilter(matcher, texts):
    index = matcher.index(texts, mix=0.25)
    found = index.search(QUERY, top_k=7, candidates=20)
    index.mix = 0
    alone = {one.index: one.score for one in index.search(QUERY, top_k=20, candidates=20)}
    near = index.scores(QUERY)
    lowest, highest = (limit(near[list(alone)]) for limit in (min, max))
    for one in found:
        expected = 0.75 * alone[one.index] + 0.25 * (near[one.index] - lowest) / (highest - lowest)
        assert one.score == pytest.approx(expected, abs=1e-6)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_the_search_command_chooses_the_mix_on_dev_and_keeps_it_in_the_index(tmp_path, texts, capsys):
    folder, stored = tmp_path / "data", tmp_path / "texts.txt"
    folder.mkdir()
    saved_model.write_tsv(folder / "dev.tsv", [(text, text, "1") for text in texts], "text_a\ttext_b\tlabel")
    stored.write_text("".join(f"{text}\n" for text in texts))
    config = {"data": {"name": "own", "directory": str(folder), "task": "classification"}}
    run, index = save(tmp_path / "run", labels=("0", "1"), config=config), str(tmp_path / "index")
    assert main(["search", str(run), "--texts", str(stored), "--save", index]) == 0
    note = capsys.readouterr().err
    assert note.startswith("note: the prefilter has a share of ") and "chosen on own dev" in note
    mix = jaxmatch.load(run).load_index(index).mix
    assert f"share of {mix:.1f}," in note
    assert main(["search", str(run), "--index", index, "--query", texts[0]]) == 0
    out, err = capsys.readouterr()
    score = jaxmatch.load(run).load_index(index).search(texts[0])[0].score
    assert json.loads(out.splitlines()[0])["score"] == round(score, 6)
    assert not err
    assert main(["search", str(run), "--index", index, "--query", texts[0], "--mix", "1.5"]) == 2


@pytest.mark.parametrize("prefilter", ["vectors", "bm25"])
def test_texts_of_unknown_words_are_found(matcher, prefilter):
    index = matcher.index(["zzz", "yyy", "a b"], prefilter)
    assert sorted(one.index for one in index.search("xxx", top_k=3)) == [0, 1, 2]
    scores = index.scores("yyy")  # of the prefilters, only BM25 counts words without a vector
    assert scores[0] == scores[2] == 0 and (scores[1] > 0) == (prefilter == "bm25")


def test_missing_bm25s_is_an_error_with_an_install_hint(matcher, texts, monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(InputError, match=r"pip install 'jaxmatch\[search\]', or take the prefilter 'vectors'"):
        matcher.index(texts, "bm25")


def _lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_rank_prints_the_best_first(binary, matcher, texts, tmp_path, capsys, monkeypatch):
    expected = [
        {"query": QUERY, "rank": place, "line": one.index + 1, "text": one.text, "score": round(one.score, 6)}
        for place, one in enumerate(matcher.rank(QUERY, texts, top_k=4), start=1)
    ]
    plain, objects = tmp_path / "in.txt", tmp_path / "in.jsonl"
    plain.write_text("".join(f"{text}\n" for text in texts))
    objects.write_text("".join(json.dumps({"text": text, "id": 1}) + "\n" for text in texts))
    for source in (plain, objects):
        assert main(["rank", str(binary), "--query", QUERY, "--input", str(source), "--top-k", "4"]) == 0
        assert _lines(capsys) == expected
    with open(plain) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["rank", str(binary), "--query", QUERY, "--input", "-", "--top-k", "4"]) == 0
    assert _lines(capsys) == expected


def test_columns_and_quoted_make_plain_input_a_table(binary, texts, tmp_path, capsys, monkeypatch):
    table = tmp_path / "in.txt"
    table.write_text("id\tanswer\n" + "".join(f"{number}\t{text}\n" for number, text in enumerate(texts)))
    rank = ["rank", str(binary), "--query", QUERY, "--columns", "text=answer", "--input"]
    assert main([*rank, str(table)]) == 0
    answers = _lines(capsys)
    assert sorted(answer["text"] for answer in answers) == sorted(texts)
    assert main([*rank, str(table), "--quoted"]) == 0 and _lines(capsys) == answers
    with open(table) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main([*rank, "-"]) == 0
    assert _lines(capsys) == answers
    assert main([*rank, str(table), "--input-format", "text"]) == 2
    assert capsys.readouterr().err.endswith("no columns and no quotation marks; leave out --input-format text\n")


@pytest.mark.parametrize("prefilter", ["vectors", "bm25"])
def test_search_command_gives_equal_results_from_texts_and_a_saved_index(
    binary, matcher, texts, prefilter, tmp_path, capsys
):
    stored, queries, index = tmp_path / "texts.txt", tmp_path / "queries.txt", tmp_path / "index"
    stored.write_text("".join(f"{text}\n" for text in texts))
    queries.write_text(f"{QUERY}\nd e\n")
    words = ["--input", str(queries), "--top-k", "3", "--candidates", "9"]
    command = ["search", str(binary), "--texts", str(stored), "--prefilter", prefilter]
    assert main([*command, *words]) == 0
    answers = _lines(capsys)
    assert [answer["query"] for answer in answers] == [QUERY] * 3 + ["d e"] * 3
    found = [(answer["line"] - 1, answer["text"]) for answer in answers[3:]]
    assert found == [(one.index, one.text) for one in matcher.index(texts, prefilter).search("d e", 3, 9)]
    assert main([*command, "--save", str(index)]) == 0 and _lines(capsys) == []
    assert main(["search", str(binary), "--index", str(index), *words]) == 0
    assert _lines(capsys) == answers


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--texts", "in.txt"], "there is nothing to search for; give --query or --input, or --save an index"),
        (["--texts", "-", "--input", "-"], "texts and queries cannot both come from standard input; give one"),
        (["--index", "in", "--save", "out"], "--index cannot be combined with --prefilter or --save; give --texts"),
        (["--index", "in.txt", "--query", "a"], "in.txt: holds no index (no index.json)"),
        (["--texts", "in.txt", "--query", " "], "argument --query: the text is empty or not UTF-8"),
        (["--texts", "none.txt", "--query", "a"], "none.txt: No such file or directory"),
        (["--texts", "empty.txt", "--query", "a"], "empty.txt: holds no texts"),
        (["--texts", "in.txt", "--input-format", "jsonl", "--query", "a"], "in.txt:1: not valid JSON"),
        (["--texts", "in.txt", "--input", "in.txt", "--columns", "text=b"], "in.txt:1: the header has no column 'b'"),
        (["--texts", "in.txt", "--query", "a", "--label", "x"], "'x' is not one of the model's labels (0, 1)"),
        (["--texts", "in.txt", "--mix", "0.5", "--save", "full"], "full: there is something else than an index"),
    ],
)
def test_invalid_search_arguments_are_reported_in_one_line(binary, tmp_path, monkeypatch, capsys, words, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("a\nb\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letters").write_text("dear")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["search", str(binary), *words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"jaxmatch: {problem}") and err.count("\n") == 1 and not out
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_saving_an_index_needs_no_label_but_searching_does(run, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("a\nb\n")
    words = ["search", str(run), "--texts", str(tmp_path / "in.txt")]
    assert main([*words, "--save", str(tmp_path / "index")]) == 0
    assert main([*words, "--query", "a"]) == 2
    assert "name the one that means a match: --label" in capsys.readouterr().err


def test_the_names_of_prefilters_are_those_of_the_command():
    assert set(models.PREFILTERS) == set(search.PREFILTERS)


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


def _content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["letters", "prefilter/mine.txt", "notes/a.txt"])
def test_an_index_folder_with_an_extra_file_is_not_replaced(matcher, texts, tmp_path, name):
    folder = tmp_path / "index"
    folder.mkdir()  # an empty folder is replaced
    matcher.index(texts).save(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = _content(folder)
    with pytest.raises(InputError, match=f"there is something else than an index: '{name}'; name a new folder"):
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
    for changed, problem in (({"format": 1}, "is not an index of format 2"), ({"sha256": {}}, "the index is damaged")):
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
