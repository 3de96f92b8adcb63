"""Features of words and tokens besides their ids: characters, parts of speech, exact matches."""

import importlib.metadata
import re

import numpy as np
import pytest

from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.data import encoding, text
from jaxmatch.data.encoding import DataSettings, prepare
from jaxmatch.data.text import (
    LEAST_TAGS,
    TAG_NUMBERS,
    Preprocessing,
    character_table,
    exact_matches,
    nltk_tagger,
    tags,
)
from jaxmatch.errors import InputError

FIRST = ("<padding>", "<unknown>")


def test_character_table_equals_hand_computed_values():
    table = character_table([*FIRST, "ab", "x" * 20, "é\0", "7"])
    assert table.shape == (6, 16) and table.dtype == np.uint16
    assert not table[0].any()
    assert table[1].tolist() == [1] + [0] * 15
    assert table[2].tolist() == [97, 98] + [0] * 14
    assert table[3].tolist() == [120] * 16
    assert table[4].tolist() == [1, 1] + [0] * 14  # neither character has its own number, and neither is padding
    assert table[5, 0] == ord("7")
    table = character_table([*FIRST, "aé", "я"], known=1024)
    assert table[2, :2].tolist() == [97, 128 + 0xE9] and table[3, 0] == 128 + (0x44F - 896)


def test_the_tag_numbers_are_fixed():
    # Every saved model depends on these numbers: 0 padding, 1 no known tag, then the tags of the Penn Treebank.
    assert [TAG_NUMBERS[tag] for tag in ("#", "DT", "NN", "``")] == [2, 12, 21, 46] and LEAST_TAGS == 47


def test_tags_are_aligned_with_tokens(tagger):
    def names(text, **changes):
        preprocessing = Preprocessing(**changes)
        found = tags(text, preprocessing)
        assert len(found) == len(preprocessing.tokens(text))
        by_number = {number: tag for tag, number in TAG_NUMBERS.items()}
        return [by_number.get(number) for number in found]

    text = "The quick fox, she says, jumps over London."
    assert names(text) == ["DT", "JJ", "NN", "PRP", "VBZ", "VBZ", "IN", "NNP"]
    assert names(text, remove_punctuation=False)[3] == ","
    assert names(text, maximum_length=2) == ["DT", "JJ"]
    assert names(text, maximum_length=2, truncation_side="left") == names(text)[-2:]
    assert names("?!") == [None]  # no token is left


def test_missing_tagger_is_an_error_naming_its_download(no_tagger, tmp_path):
    with pytest.raises(InputError, match="python -m nltk.downloader averaged_perceptron_tagger_eng"):
        nltk_tagger()
    with pytest.raises(InputError, match="averaged_perceptron_tagger_eng"):
        prepare(DataSettings("embedded_inference", tags=True), tmp_path / "cache")


def test_exact_matches_are_symmetric():
    assert exact_matches(["a", "b", "a"], ["c", "a"]) == ([1, 0, 1], [0, 1])
    assert exact_matches(["c", "a"], ["a", "b", "a"]) == ([0, 1], [1, 0, 1])


@pytest.fixture
def own(tmp_path):
    """A function that returns the settings of own data: two pairs, with vectors."""
    (tmp_path / "train.tsv").write_text(
        "text_a\ttext_b\tlabel\nThe rare cat, the dog.\ta Cat or RARE cow\tyes\nthe end\tthe\tno\n"
    )
    (tmp_path / "v.txt").write_text("cat 1 2\ndog 3 4\nthe 5 6\n")
    return lambda **features: DataSettings("own", str(tmp_path), vectors=str(tmp_path / "v.txt"), **features)


def test_features_are_aligned_with_tokens(own, tmp_path, tagger):
    plain = prepare(own(), tmp_path / "cache")
    for _ in range(2):  # the second time from the cache
        data = prepare(own(characters=128, tags=True, exact_match=True), tmp_path / "cache")
    assert plain.characters is None and plain.splits["train"].features() == {} and plain.fingerprint != data.fingerprint
    np.testing.assert_array_equal(data.characters, character_table(data.vocabulary.words))
    train = data.splits["train"]
    np.testing.assert_array_equal(train.tokens_a, plain.splits["train"].tokens_a)
    # "rare" is not in the vocabulary, but it still matches.
    assert train.exact_match_a.tolist() == [0, 1, 1, 0, 0, 1, 0]
    assert train.exact_match_b.tolist() == [0, 1, 0, 1, 0, 1]
    ids, sentences = train.pair_rows()
    features = train.features()
    assert set(features) == {"tags", "exact_match"}
    assert features["exact_match"].tolist() == [[0, 1, 1, 0, 0, 0, 1, 0, 1, 0], [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]]
    assert ((features["tags"] > 0) == (ids > 0)).all() and features["tags"].dtype == np.uint8
    determiners = features["tags"] == TAG_NUMBERS["DT"]
    assert [np.flatnonzero(row).tolist() for row in (determiners[0, :6], determiners[1, :3])] == [[0, 3, 5], [0, 2]]
    with_case = prepare(own(exact_match=True, lowercase=False), tmp_path / "cache").splits["train"]
    np.testing.assert_array_equal(with_case.exact_match_b, train.exact_match_b)
    cut = prepare(own(tags=True, exact_match=True, maximum_length=2), tmp_path / "cache").splits["train"]
    assert cut.exact_match_a.tolist() == [0, 0, 1, 0] and len(cut.tags_a) == 4  # "rare" is cut from the other sentence


def test_config_requests_the_features_of_its_model():
    def requested(model, **changes):
        config = with_overrides(default_config(model), {f"model.{key}": value for key, value in changes.items()})
        settings = encoding.data_settings(config)
        return settings.characters, settings.tags, settings.exact_match

    assert requested("re2") == requested("esan") == (0, False, False)
    assert requested("esan", characters="cnn", exact_match=True) == (128, False, True)
    assert requested("csran", characters="bilstm", known_characters=500, tags=True) == (500, True, False)
    with pytest.raises(InputError, match="config.model.known_characters = 100 is too small; it is at least 128"):
        requested("esan", characters="cnn", known_characters=100)
    with pytest.raises(InputError, match="config.model.known_tags = 46 is too small; it is at least 47"):
        requested("esan", tags=True, known_tags=46)
    assert requested("re2", characters="bilstm", tags=True, exact_match=True) == (128, True, True)


def fingerprint_of(tmp_path, **settings):
    return encoding.fingerprint_of(DataSettings("embedded_ranking", **settings), tmp_path)[0]


@pytest.mark.parametrize("tokenizer", ["whitespace", "word", "tweet"])
def test_encoding_fingerprint_depends_on_the_rules_of_nltk_and_not_on_its_version(tmp_path, monkeypatch, tokenizer):
    before, version = fingerprint_of(tmp_path, tokenizer=tokenizer), importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version(name) + ".1")
    assert fingerprint_of(tmp_path, tokenizer=tokenizer) == before
    words = text.nltk_tokenizer("NLTKWordTokenizer")
    monkeypatch.setattr(words, "PUNCTUATION", [*words.PUNCTUATION, (re.compile("x"), " x ")], raising=False)
    (tmp_path / "casual.py").write_bytes(text.nltk_file("tokenize", "casual.py").read_bytes() + b"#")
    monkeypatch.setattr(text, "nltk_file", lambda *names: tmp_path / names[-1])
    assert (fingerprint_of(tmp_path, tokenizer=tokenizer) == before) == (tokenizer == "whitespace")


def test_encoding_fingerprint_depends_on_the_version_of_generated_data(tmp_path, monkeypatch):
    before = fingerprint_of(tmp_path)
    monkeypatch.setattr(encoding.generated, "VERSION", encoding.generated.VERSION + ".1")
    assert fingerprint_of(tmp_path) != before
