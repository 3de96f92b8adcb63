"""Ubuntu dialogues: contexts as groups of ten candidates, in both layouts of the context."""

import pytest
from reader_formats import UBUNTU, UBUNTU_CONTEXT, columns, write
from refusals import refused

from jaxmatch.data.readers import ubuntu


def test_a_context_is_a_group_of_ten_labeled_candidates(tmp_path):
    split = ubuntu.read(write(tmp_path, "test.txt", UBUNTU + UBUNTU.replace("full", "slow")))
    assert split.labels == (["1"] + ["0"] * 9) * 2 and split.groups == ["1"] * 10 + ["2"] * 10
    assert split.text_a[0] == UBUNTU_CONTEXT and split.text_a[19] == UBUNTU_CONTEXT.replace("full", "slow")
    assert split.text_b[:2] == ["answer 0", "answer 1"] and split.documents is None


def test_repeated_context_gives_two_groups(tmp_path):
    assert ubuntu.read(write(tmp_path, "test.txt", UBUNTU * 2)).groups == ["1"] * 10 + ["2"] * 10


@pytest.mark.parametrize("missing, line, count", [(2, 1, 9), (12, 11, 9), (20, 11, 9)])
def test_missing_candidate_is_an_error_at_the_line_of_its_context(tmp_path, missing, line, count):
    rows = (UBUNTU + UBUNTU.replace("full", "slow")).splitlines(keepends=True)
    error = refused(ubuntu.read, write(tmp_path, "test.txt", "".join(rows[: missing - 1] + rows[missing:])))
    assert error.line == line and f"has {count} of its 10 candidates" in str(error)


def test_a_training_context_has_a_right_and_a_wrong_response(tmp_path):
    path = write(tmp_path, "train.txt", "1\tc\tyes\n0\tc\tno\n1\td\tyes\n0\td\tno\n1\te\tyes\n")
    assert columns(ubuntu.read_train(path))[:2] == [("c", "yes", "1"), ("c", "no", "0")]
    assert ubuntu.read_train(path).groups == ["1", "1", "2", "2", "3"]
    assert refused(ubuntu.read, path).line == 1


def test_utterances_in_separate_columns_are_joined(tmp_path):
    path = write(tmp_path, "train.txt", "1\thi all\tmy disk is full\thow big ?\ttwo gigabytes\n")
    assert columns(ubuntu.read_train(path)) == [
        ("hi all __eot__ my disk is full __eot__ how big ?", "two gigabytes", "1")
    ]


def test_candidates_of_a_context_share_one_string_object(tmp_path):
    split = ubuntu.read(write(tmp_path, "test.txt", UBUNTU))
    assert all(text is split.text_a[0] for text in split.text_a)
