"""Tokenizers and preprocessing options."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from jaxmatch.data import catalog
from jaxmatch.data.text import TOKENIZERS, Preprocessing, is_punctuation
from jaxmatch.errors import InputError

PIECES = [
    "a",
    "he",
    "n't",
    "n",
    "t",
    "'",
    "'s",
    "'S",
    "'d",
    "'ll",
    "'LL",
    "N'T",
    "re",
    "S",
    "1",
    "2",
    " ",
    " ",
    "  ",
    ",",
    ".",
    "?",
    "!",
    "-",
    "--",
    "(",
    ")",
    "&",
    "$",
    "%",
    "#",
    "@",
    ";",
    ":",
    '"',
    "``",
    "''",
    "cannot",
    "gonna",
    "\t",
    "é",
    "’",
]


@pytest.mark.parametrize(
    ("tokenizer", "text", "expected"),
    [
        ("word", "A man isn't eating, is he?", ["a", "man", "is", "n't", "eating", "is", "he"]),
        ("word", "The cat sleeps. He can't.", ["the", "cat", "sleeps", "he", "ca", "n't"]),
        ("word", "He cannot pay $1,500.50 (now).", ["he", "can", "not", "pay", "1,500.50", "now"]),
        ("whitespace", "A man isn't  eating , he ?", ["a", "man", "isn't", "eating", "he"]),
        ("characters", "He can't say 我喜欢iPhone手机，真的。", "he ca n't say 我 喜 欢 iphone 手 机 真 的".split()),
        ("characters", "カメラか\u30992台｡ﾊ\uff9fﾝ", ["カ", "メ", "ラ", "か\u3099", "2", "台", "ﾊ\uff9f", "ﾝ"]),
        ("characters", "ที่นี่ สวัสดี", ["ที่", "นี่", "ส", "วั", "ส", "ดี"]),
        ("characters", "ស្រីល្អ မြန်မာ", ["ស្រី", "ល្អ", "မြ", "န်", "မာ"]),
        ("tweet", "It's a well-known fact :-) !!", ["it's", "a", "well-known", "fact"]),
        ("tweet_split", "It's well-known; they don't 'see' A/B.", "it 's well known they do n't see a b".split()),
    ],
)
def test_tokens_equal_hand_written_examples(tokenizer, text, expected):
    assert Preprocessing(tokenizer).tokens(text) == expected


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@example("She won't. 'Tis (a) test..")
@example("a , b,c ,, d")
@settings(max_examples=50, deadline=None)
def test_fast_word_tokenizer_equals_nltk(text):
    # No piece is a lower-case word before a full stop and a capital word of two letters, except as a sentence's end.
    if ". S" not in text:
        assert TOKENIZERS["word"](text) == NLTKWordTokenizer().tokenize(text.strip(" "))


def test_fast_word_tokenizer_equals_nltk_on_quora(data_folder):
    data = catalog.load("quora", data_folder)
    texts = [text for text in data.splits["dev"].text_a[:3000] if ". " not in text]
    tokenizer = NLTKWordTokenizer()
    assert [TOKENIZERS["word"](text) for text in texts] == [tokenizer.tokenize(text.strip(" ")) for text in texts]


@given(st.text(max_size=30), st.sampled_from(list(TOKENIZERS)), st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_any_text_gives_tokens_within_the_limit(text, tokenizer, limit):
    tokens = Preprocessing(tokenizer, maximum_length=limit).tokens(text)
    assert tokens and all(tokens)
    assert not limit or len(tokens) <= limit
    assert tokens == ["<unknown>"] or not any(is_punctuation(token) for token in tokens)


def test_preprocessing_options_change_the_tokens():
    text = "The End ..."
    assert Preprocessing(lowercase=False).tokens(text) == ["The", "End"]
    assert Preprocessing(remove_punctuation=False).tokens(text) == ["the", "end", "..."]
    assert Preprocessing(maximum_length=1).tokens(text) == ["the"]
    assert Preprocessing(maximum_length=1, truncation_side="left").tokens(text) == ["end"]
    assert Preprocessing(truncation_side="left").tokens(text) == ["the", "end"]
    assert Preprocessing().tokens(" ?! ") == ["<unknown>"]
    assert Preprocessing().tokens("« € — ») §") == ["<unknown>"]


def test_unknown_tokenizer_is_an_error():
    with pytest.raises(InputError, match="no tokenizer 'words'; use one of whitespace, word"):
        Preprocessing("words")
