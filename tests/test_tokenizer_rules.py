"""The rules that an export carries make the tokens that training made."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data.tokenizer_rules import substitutions
from jaxmatch.data.tokens import TOKENIZERS

RULES = {name: substitutions(name) for name in ("whitespace", "word")}
PIECES = ["can't", "cannot", "gonna ", "He said. Then", "wait...", "``", '"', "'", "''", "(a)", "[b]", "--", " ", "\n"]
PIECES += [
    "3.88",
    "$",
    "d'ye",
    "'tis",
    " 'Twas",
    "more'n",
    "more'n ",
    ":",
    "a,b",
    "U.S.",
    "\u2014",
    "\u00e9",
    "\u201c",
    "*",
    "?!",
]


def followed(name, text):
    for pattern, replacement in RULES[name]:
        text = re.sub(pattern, replacement, text)
    return text.split()


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=400, deadline=None)
@given(text=st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(max_size=20)))
def test_the_rules_make_the_same_tokens(name, text):
    assert followed(name, text) == TOKENIZERS[name](text)


def test_the_tokenisers_of_tweets_are_no_rules():
    assert substitutions("tweet") is None and substitutions("tweet_split") is None
