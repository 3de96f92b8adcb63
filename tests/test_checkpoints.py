import errno
import logging
import os
import resource
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp
import pytest

from jaxmatch.training.checkpoints import Checkpoints, silence_orbax


def tree(value):
    return {"a": np.full((3, 4), value, np.float32), "b": (np.arange(5, dtype=np.int32), np.full((), value, np.int32))}


@pytest.fixture
def checkpoints(tmp_path):
    made = Checkpoints(tmp_path / "checkpoints")
    yield made
    made.close()


def newest(folder):
    return max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else -1)


def test_newest_checkpoint_is_restored_exactly(checkpoints):
    assert checkpoints.restore(tree(0)) is None
    for number in (1, 2, 3):
        checkpoints.save(number, tree(number), {"epoch": number, "score": float("nan")})
    arrays, notes = checkpoints.restore(tree(0))
    assert notes["epoch"] == 3
    np.testing.assert_array_equal(arrays["a"], tree(3)["a"])
    assert arrays["a"].dtype == np.float32 and arrays["b"][0].dtype == np.int32 and arrays["b"][1] == 3


def test_only_the_newest_two_checkpoints_are_kept(checkpoints, tmp_path):
    for number in range(1, 6):
        checkpoints.save(number, tree(number), {})
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.isdigit()) == ["4", "5"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_damaged_checkpoint_is_skipped_for_the_previous_one(checkpoints, tmp_path, damage):
    random = np.random.default_rng(0)
    big = {"a": random.normal(size=(200, 50)).astype(np.float32)}  # random numbers do not compress away
    checkpoints.save(1, big, {"epoch": 1})
    checkpoints.save(2, {"a": big["a"] + 1}, {"epoch": 2})
    largest = max(
        (path for path in newest(tmp_path).rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    content = bytearray(largest.read_bytes())
    if damage == "remove":
        largest.unlink()
    else:
        half = len(content) // 2
        largest.write_bytes(
            content[:half]
            if damage == "truncate"
            else content[:half] + bytes([content[half] ^ 255]) + content[half + 1 :]
        )
    arrays, notes = checkpoints.restore(big)
    assert notes == {"epoch": 1}
    np.testing.assert_array_equal(arrays["a"], big["a"])
    checkpoints.save(2, big, {"epoch": 22})  # as the damaged one
    assert checkpoints.restore(big)[1] == {"epoch": 22}


def test_checkpoint_of_another_tree_structure_is_not_restored(checkpoints):
    checkpoints.save(1, tree(1), {})
    assert checkpoints.restore({"a": np.zeros(3)}) is None


def saved_numbers(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir() if path.name.isdigit())


def test_unreadable_checkpoints_are_kept_until_the_next_save(checkpoints, tmp_path, monkeypatch):
    checkpoints.save(1, tree(1), {"epoch": 1})
    checkpoints.save(2, tree(2), {"epoch": 2})
    with monkeypatch.context() as patch:
        patch.setattr("jaxmatch.training.checkpoints.digest", lambda *_: "another")
        assert checkpoints.restore(tree(0)) is None
    assert saved_numbers(tmp_path) == ["1", "2"]
    assert checkpoints.restore(tree(0))[1] == {"epoch": 2}
    checkpoints.save(3, tree(3), {"epoch": 3})
    assert saved_numbers(tmp_path) == ["3"]


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(errno.EMFILE, "Too many open files"), ValueError("RESOURCE_EXHAUSTED: ...")],
    ids=type,
)
def test_temporary_read_errors_do_not_count_as_damage(checkpoints, tmp_path, monkeypatch, caplog, error):
    checkpoints.save(1, tree(1), {})

    def failing_restore(*_, **__):
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(checkpoints.manager, "restore", failing_restore)
        checkpoints.restore(tree(0))
    assert saved_numbers(tmp_path) == ["1"]
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING and "damaged" in each.message]


@pytest.mark.parametrize(("free", "raised"), [(0, OSError), (10**12, ValueError)])
def test_save_error_becomes_enospc_only_on_a_full_disk(checkpoints, tmp_path, monkeypatch, free, raised):
    def full(*_, **__):
        raise ValueError("whatever the storage says")

    monkeypatch.setattr(checkpoints.manager, "save", full)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12 - free, free))
    with pytest.raises(raised) as caught:
        checkpoints.save(1, tree(1), {})
    if raised is OSError:
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "checkpoints"))


def test_failed_save_raises_one_error_and_leaves_no_files(checkpoints, tmp_path, capfd, caplog, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    silence_orbax.__wrapped__()
    big = {"a": np.random.default_rng(0).normal(size=100_000).astype(np.float32)}
    checkpoints.save(1, big, {"epoch": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            checkpoints.save(1, big, {"epoch": 1.5})  # even one of the same number leaves the one before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "checkpoints"))
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING] and capfd.readouterr().err == ""
    assert os.listdir(tmp_path / "checkpoints") == ["1"]
    for text in ("Event loop is closed", "another"):  # as in a thread that fails after the save
        sys.unraisablehook(types.SimpleNamespace(exc_value=RuntimeError(text)))
    assert [str(each.exc_value) for each in unraisable] == ["another"]
    assert checkpoints.restore(big)[1] == {"epoch": 1}


def test_permission_error_names_the_checkpoint(checkpoints, tmp_path, monkeypatch):
    checkpoints.save(1, tree(1), {})

    def failing_restore(*_, **__):
        raise ValueError("PERMISSION_DENIED: Error opening: Permission denied [os_error_code='13']")

    monkeypatch.setattr(checkpoints.manager, "restore", failing_restore)
    with pytest.raises(PermissionError) as caught:
        checkpoints.restore(tree(0))
    assert caught.value.filename == str(tmp_path / "checkpoints" / "1")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_restart_removes_partial_checkpoints_and_checkpoints_with_pipes(tmp_path):
    first = Checkpoints(tmp_path / "checkpoints")
    for number in (1, 2):
        first.save(number, tree(number), {"epoch": number})
    first.close()
    (tmp_path / "checkpoints" / "3.orbax-checkpoint-tmp" / "arrays").mkdir(parents=True)
    file = tmp_path / "checkpoints" / "2" / "notes" / "metadata"
    file.unlink()
    os.mkfifo(file)
    again = Checkpoints(tmp_path / "checkpoints")
    assert again.restore(tree(0))[1] == {"epoch": 1}
    assert os.listdir(tmp_path / "checkpoints") == ["1"]
    again.close()


def test_log_records_of_orbax_are_suppressed_and_others_are_kept(tmp_path, caplog):
    """A thread of Orbax may fail after the error was raised, and would print a traceback."""
    Checkpoints(tmp_path / "checkpoints").close()
    logger, of_orbax = logging.getLogger("absl"), str(Path(ocp.__file__).parent / "checkpointer.py")
    for path, line in ((of_orbax, "of Orbax"), (__file__, "of another")):
        logger.handle(logger.makeRecord("absl", logging.ERROR, path, 1, line, (), None))
    assert caplog.messages == ["of another"]
