"""Tokenizers, preprocessing options, the tokenizer rules of an export, and vocabularies."""

import re
import time

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from jaxmatch.data.text import (
    SENTENCE_END,
    TOKENIZERS,
    UNKNOWN,
    Preprocessing,
    build_vocabulary,
    is_punctuation,
    substitutions,
)


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


RULES = {name: substitutions(name) for name in ("whitespace", "word", "characters")}
PIECES = ["can't", "cannot", "gonna ", "He said. Then", "wait...", "``", '"', "'", "''", "(a)", "[b]", "--", " ", "\n"]
PIECES += ["3.88", "$", "d'ye", "'tis", " 'Twas", "more'n", "more'n ", ":", "a,b", "U.S.", "*", "?!"]
PIECES += ["\u2014", "\u00e9", "\u201c", "\u6211", "\u3002", "\u0e17\u0e35\u0e48"]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(max_size=20))


def tokens_by_rules(name, text):
    for pattern, replacement in RULES[name]:
        text = re.sub(pattern, replacement, text)
    return text.split()


def differs_in_re_and_regex(character):
    """Returns whether `re` and `regex` class a character differently. Releases of NLTK use one or the other."""
    return any(bool(re.match(kind, character)) != bool(regex.match(kind, character)) for kind in (r"\w", r"\s", r"\d"))


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
@example(text="'\u00b9")
@example(text="ab. )")
@example(text="dogs' \n' c")
def test_rules_give_the_tokens_of_the_tokenizer(name, text):
    assert tokens_by_rules(name, text) == TOKENIZERS[name](text)


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_word_rules_give_the_tokens_of_nltk(text):
    text = "".join(character for character in text if not differs_in_re_and_regex(character))
    assert tokens_by_rules("word", text) == NLTKWordTokenizer().tokenize(SENTENCE_END.sub(" . ", text).strip(" "))


@pytest.mark.parametrize("before", ["\u00e9", "ab."])
def test_many_spaces_take_little_time(before):
    text = before + 10**6 * " " + "\u00e9"
    began = time.process_time()
    assert tokens_by_rules("word", text) == TOKENIZERS["word"](text) == tokens_by_rules("word", f"{before} \u00e9")
    assert time.process_time() - began < 10  # half an hour if the time were quadratic in the number of spaces


# --- vocabulary ---


def test_words_are_selected_by_count_or_vector_and_sorted_by_count():
    counts = {"rare": 1, "known": 1, "often": 5, "b": 7, "a": 7, "almost": 4}
    assert build_vocabulary(counts, {"known", "elsewhere"}).words[2:] == ("a", "b", "often", "known")
    assert build_vocabulary(counts, set(), minimum_count=6).words[2:] == ("a", "b")


def test_text_that_spells_the_special_words_is_unknown_and_never_padding():
    vocabulary = build_vocabulary({"<padding>": 9, "<unknown>": 9, "cat": 9}, {"<padding>", "<unknown>"})
    assert vocabulary.words == ("<padding>", "<unknown>", "cat") and len(vocabulary) == 3
    assert vocabulary.ids(["<padding>", "cow", "<unknown>", "cat"]) == [UNKNOWN, UNKNOWN, UNKNOWN, 2]
