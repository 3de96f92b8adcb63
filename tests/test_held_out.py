"""The dev split that is taken from a training file."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from reader_formats import columns, quick

from jaxmatch.data.pairs import HELD_OUT_SHARE as SHARE
from jaxmatch.data.pairs import Split, hold_out
from jaxmatch.errors import InputError


def split(first_texts):
    numbers = [str(number) for number in range(len(first_texts))]
    return Split(first_texts, numbers, ["0"] * len(numbers), source=Path("train.txt"), dropped={"reason": 3})


@quick
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=2), min_size=2, max_size=60))
def test_each_pair_is_in_one_split_and_pairs_of_a_text_stay_together(texts):
    whole = split(texts)
    try:
        train, dev = hold_out(whole)
    except InputError as error:  # a few texts may leave no pair for train
        assert "a part without pairs" in str(error) and len(set(texts)) < 20
        return
    assert sorted(columns(train) + columns(dev)) == sorted(columns(whole))
    assert not set(train.text_a) & set(dev.text_a) and train.text_a and dev.text_a
    for part in (train, dev):
        assert list(map(int, part.text_b)) == sorted(map(int, part.text_b))
    # Dev has no more texts than its share needs.
    assert SHARE * len(texts) <= len(dev) < SHARE * len(texts) + max(dev.text_a.count(text) for text in dev.text_a)


def test_split_does_not_depend_on_the_line_order():
    texts = [chr(97 + number % 26) for number in range(200)]
    dev = set(hold_out(split(texts))[1].text_a)
    assert dev == set(hold_out(split(texts[::-1]))[1].text_a) and len(dev) == 3


def test_split_is_determined_by_hashes_of_the_texts():
    # Of the ten digits, "9" has the lowest SHA-256. It begins with 19, and the next one, that of "8", with 2c.
    train, dev = hold_out(split([str(number) for number in range(10)]))
    assert dev.text_a == ["9"] and train.text_a == list("012345678")
    assert train.dropped == {"reason": 3} and dev.dropped == {}
    assert train.source == dev.source == Path("train.txt") and train.groups is None
