"""Words and their ids."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.data.text import PADDING, UNKNOWN, Vocabulary, build_vocabulary


def test_words_are_selected_by_count_or_vector_and_sorted_by_count():
    counts = {"rare": 1, "known": 1, "often": 5, "b": 7, "a": 7, "almost": 4}
    assert build_vocabulary(counts, {"known", "elsewhere"}).words == (
        "<padding>",
        "<unknown>",
        "a",
        "b",
        "often",
        "known",
    )
    assert build_vocabulary(counts, set(), minimum_count=6).words[2:] == ("a", "b")


def test_ids_of_known_and_unknown_words():
    vocabulary = Vocabulary(["<padding>", "<unknown>", "cat", "dog"])
    assert vocabulary.ids(["dog", "cow", "cat", "<unknown>"]) == [3, 1, 2, 1]
    assert len(vocabulary) == 4


def test_text_that_spells_the_special_words_is_unknown_and_never_padding():
    vocabulary = build_vocabulary({"<padding>": 9, "<unknown>": 9, "cat": 9}, {"<padding>", "<unknown>"})
    assert vocabulary.words == ("<padding>", "<unknown>", "cat")
    assert vocabulary.ids(["<padding>", "<unknown>"]) == [UNKNOWN, UNKNOWN]


@given(
    st.dictionaries(st.text(max_size=5), st.integers(1, 9), max_size=20),
    st.sets(st.text(max_size=5)),
    st.integers(1, 9),
)
@settings(max_examples=50, deadline=None)
def test_every_kept_word_round_trips_through_its_id(counts, has_vector, minimum):
    vocabulary = build_vocabulary(counts, has_vector, minimum)
    for word, count in counts.items():
        (number,) = vocabulary.ids([word])
        assert number != PADDING
        assert (vocabulary.words[number] == word) == (count >= minimum or word in has_vector)
    assert vocabulary.words == build_vocabulary(dict(reversed(counts.items())), has_vector, minimum).words


def test_missing_special_words_and_duplicates_are_errors():
    with pytest.raises(ValueError, match="begins with"):
        Vocabulary(["cat", "dog"])
    with pytest.raises(ValueError, match="twice"):
        Vocabulary(["<padding>", "<unknown>", "cat", "cat"])
