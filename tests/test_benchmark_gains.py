import dataclasses

import pytest

from benchmarks.conversation import Conversation, Ended
from benchmarks.gains_worker import kind_of
from benchmarks.items import gains
from benchmarks.settings import Settings
from jaxmatch.errors import InputError


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("dot.12", "matrix products"),
        ("ynn_fusion.3", "matrix products"),
        ("copy_bitcast_fusion.6", "moves"),
        ("wrapped_slice", "moves"),
        ("reduce_add.1", "sums and maxima"),
        ("broadcast_multiply_fusion", "element by element"),
        ("ThunkExecutor::Execute", ""),
        ("while.3", ""),
    ],
)
def test_instructions_are_told_apart(instruction, kind):
    assert kind_of(instruction) == kind


def test_a_version_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match="commit 0123456789abcdef is not to be had"):
        gains._export("0123456789abcdef", tmp_path / "version")
    assert not (tmp_path / "version").exists()


def test_a_process_that_ends_is_told(tmp_path):
    with pytest.raises(Ended, match="without an answer"):
        Conversation(["false"], {})


@pytest.mark.slow
def test_the_item_runs(tmp_path, monkeypatch):
    try:
        gains._export("HEAD", tmp_path / "version")
    except InputError:
        pytest.skip("not in a checkout")
    here = [
        dataclasses.replace(gains.GAINS[-1], commit="HEAD", before="HEAD", asked={**gains.GAINS[-1].asked, "pairs": 20})
    ]
    monkeypatch.setattr(gains, "GAINS", here)
    rows, _ = gains.run(
        Settings(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)
    )
    assert [row["version"] for row in rows] == ["before, HEAD", "after, HEAD"]
    for row in rows:
        assert row["seconds"]["median"] > 0
        assert row["matrix products"] > 0
