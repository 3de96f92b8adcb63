"""The rules that an export carries make the tokens that training made, and those of NLTK."""

import re

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from jaxmatch.data.tokenizer_rules import SENTENCE_END, substitutions
from jaxmatch.data.tokens import TOKENIZERS

RULES = {name: substitutions(name) for name in ("whitespace", "word")}
PIECES = ["can't", "cannot", "gonna ", "He said. Then", "wait...", "``", '"', "'", "''", "(a)", "[b]", "--", " ", "\n"]
PIECES += ["3.88", "$", "d'ye", "'tis", " 'Twas", "more'n", "more'n ", ":", "a,b", "U.S.", "*", "?!"]
PIECES += ["\u2014", "\u00e9", "\u201c"]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(max_size=20))


def followed(name, text):
    for pattern, replacement in RULES[name]:
        text = re.sub(pattern, replacement, text)
    return text.split()


def means_two_things(character):
    """Some releases of NLTK compile their rules with `re`, others with `regex`."""
    return any(bool(re.match(kind, character)) != bool(regex.match(kind, character)) for kind in (r"\w", r"\s", r"\d"))


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
@example(text="'\u00b9")
def test_the_rules_make_the_same_tokens(name, text):
    assert followed(name, text) == TOKENIZERS[name](text)


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
def test_the_rules_make_the_tokens_of_nltk(text):
    text = "".join(character for character in text if not means_two_things(character))
    assert followed("word", text) == NLTKWordTokenizer().tokenize(SENTENCE_END.sub(" . ", text).strip(" "))


def test_the_tokenizers_of_tweets_are_no_rules():
    assert substitutions("tweet") is None and substitutions("tweet_split") is None
