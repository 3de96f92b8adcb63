"""Ubuntu dialogues: contexts as groups of ten candidates, in both layouts of the context."""

import pytest
from reader_formats import UBUNTU, UBUNTU_CONTEXT, columns, write
from refusals import refused

from jaxmatch.data import readers


def test_a_context_is_a_group_of_ten_labeled_candidates(tmp_path):
    split = readers.read_ubuntu(write(tmp_path, "test.txt", UBUNTU + UBUNTU.replace("full", "slow")))
    assert split.labels == (["1"] + ["0"] * 9) * 2 and split.groups == ["1"] * 10 + ["2"] * 10
    assert split.text_a[0] == UBUNTU_CONTEXT and split.text_a[19] == UBUNTU_CONTEXT.replace("full", "slow")
    assert split.text_b[:2] == ["answer 0", "answer 1"] and split.documents is None


def test_repeated_context_gives_two_groups(tmp_path):
    assert readers.read_ubuntu(write(tmp_path, "test.txt", UBUNTU * 2)).groups == ["1"] * 10 + ["2"] * 10


@pytest.mark.parametrize("missing, context", [(2, 1), (12, 2), (20, 2)])
def test_missing_candidate_is_an_error_that_names_its_context(tmp_path, missing, context):
    rows = (UBUNTU + UBUNTU.replace("full", "slow")).splitlines(keepends=True)
    error = refused(readers.read_ubuntu, write(tmp_path, "test.txt", "".join(rows[: missing - 1] + rows[missing:])))
    assert f"context {context} has 9 of its 10 candidates" in str(error)


def test_a_training_context_has_a_right_and_a_wrong_response(tmp_path):
    path = write(tmp_path, "train.txt", "1\tc\tyes\n0\tc\tno\n1\td\tyes\n0\td\tno\n1\te\tyes\n")
    assert columns(readers.read_ubuntu_train(path))[:2] == [("c", "yes", "1"), ("c", "no", "0")]
    assert readers.read_ubuntu_train(path).groups == ["1", "1", "2", "2", "3"]
    assert "context 1 has 2 of its 10" in str(refused(readers.read_ubuntu, path))


def test_utterances_in_separate_columns_are_joined(tmp_path):
    path = write(tmp_path, "train.txt", "1\thi all\tmy disk is full\thow big ?\ttwo gigabytes\n")
    assert columns(readers.read_ubuntu_train(path)) == [
        ("hi all __eot__ my disk is full __eot__ how big ?", "two gigabytes", "1")
    ]


def test_candidates_of_a_context_share_one_string_object(tmp_path):
    split = readers.read_ubuntu(write(tmp_path, "test.txt", UBUNTU))
    assert all(text is split.text_a[0] for text in split.text_a)
