"""The tokenizer rules of an export give the tokens of training, and those of NLTK."""

import re
import time

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from jaxmatch.data.text import SENTENCE_END, TOKENIZERS, substitutions

RULES = {name: substitutions(name) for name in ("whitespace", "word", "characters")}
PIECES = ["can't", "cannot", "gonna ", "He said. Then", "wait...", "``", '"', "'", "''", "(a)", "[b]", "--", " ", "\n"]
PIECES += ["3.88", "$", "d'ye", "'tis", " 'Twas", "more'n", "more'n ", ":", "a,b", "U.S.", "*", "?!"]
PIECES += ["\u2014", "\u00e9", "\u201c", "\u6211", "\u3002", "\u0e17\u0e35\u0e48"]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(max_size=20))


def tokens_by_rules(name, text):
    for pattern, replacement in RULES[name]:
        text = re.sub(pattern, replacement, text)
    return text.split()


# Does what the second and the third rule do, but in time quadratic in the number of spaces.
STRIPPED = re.compile(r"\A +| +\Z")


def differs_in_re_and_regex(character):
    """Returns whether `re` and `regex` class a character differently. Releases of NLTK use one or the other."""
    return any(bool(re.match(kind, character)) != bool(regex.match(kind, character)) for kind in (r"\w", r"\s", r"\d"))


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
@example(text="'\u00b9")
def test_rules_give_the_tokens_of_the_tokenizer(name, text):
    assert tokens_by_rules(name, text) == TOKENIZERS[name](text)


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
def test_word_rules_give_the_tokens_of_nltk(text):
    text = "".join(character for character in text if not differs_in_re_and_regex(character))
    assert tokens_by_rules("word", text) == NLTKWordTokenizer().tokenize(SENTENCE_END.sub(" . ", text).strip(" "))


@settings(max_examples=400, deadline=None)
@given(text=st.one_of(TEXTS, st.text(" .'\"a`)", max_size=20)))
def test_space_stripping_rules_equal_the_quadratic_pattern(text):
    (end, dot), _, _, *rules = RULES["word"]
    expected = STRIPPED.sub("", re.sub(end, dot, text))
    for pattern, replacement in rules:
        expected = re.sub(pattern, replacement, expected)
    assert tokens_by_rules("word", text) == expected.split()


@pytest.mark.parametrize("before", ["\u00e9", "ab."])
def test_many_spaces_take_little_time(before):
    text = before + 10**6 * " " + "\u00e9"
    began = time.process_time()
    assert tokens_by_rules("word", text) == TOKENIZERS["word"](text) == tokens_by_rules("word", f"{before} \u00e9")
    assert time.process_time() - began < 10  # half an hour if the time were quadratic in the number of spaces


def test_tweet_tokenizers_have_no_rules():
    assert substitutions("tweet") is None and substitutions("tweet_split") is None
