"""A folder that cannot hold a sweep is refused before anything is written."""

import os

import pytest

from jaxmatch.errors import InputError
from jaxmatch.workdir import Workdir, check_usable


@pytest.fixture
def workdir(tmp_path):
    return Workdir(tmp_path / "work")


def test_file_as_workdir_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="this is a file"):
        Workdir(tmp_path / "file")


def test_workdir_that_is_not_utf8_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"name\\xff/work: this path is not UTF-8; give another --workdir"):
        check_usable(tmp_path / os.fsdecode(b"name\xff") / "work")


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def pipe(path):
    os.mkfifo(path)


def dangling(path):
    path.symlink_to("nowhere")


def loop(path):
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    "name", [".", "runs", "cohorts", "vectors", "slurm", "cohorts/one", "cohorts/one/checkpoints", "runs/a-seed0"]
)
@pytest.mark.parametrize("put", [dangling, loop, os.mknod])
def test_obstacle_at_a_folder_path_is_refused_and_nothing_is_created(tmp_path, name, put):
    path = (tmp_path / "work" / name).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path)
    before = listing(tmp_path)
    with pytest.raises(InputError, match="link does not exist|cannot be used|this is a file") as refused:
        check_usable(tmp_path / "work")
    assert refused.value.path == path
    assert listing(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize(
    "name",
    [
        "sweep.json",
        "halving.json",
        "cohorts/one/cohort.json",
        "cohorts/one/DONE",
        "cohorts/one/rung-3.json",
        "cohorts/one/error.json",
        "runs/a-seed0/record.json",
        "vectors/a.npy",
    ],
)
@pytest.mark.parametrize("put", [pipe, os.mkdir, dangling])
def test_non_regular_file_at_a_file_path_is_refused(workdir, name, put):
    file = workdir.path / name
    file.parent.mkdir(parents=True)
    put(file)
    with pytest.raises(InputError, match="this is not a regular file; remove it") as refused:
        check_usable(workdir.path)
    assert refused.value.path == file


def test_workdir_that_cannot_be_created_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for path, problem in (
        (tmp_path / "file" / "below", "file: this is a file"),
        (tmp_path / ("n" * 300), "File name too long"),
    ):
        with pytest.raises(InputError, match=problem):
            check_usable(path)
    check_usable(tmp_path / "not" / "there" / "yet")
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    for path in (tmp_path / "not" / "there" / "yet", tmp_path):
        with pytest.raises(InputError, match="nothing can be written here") as refused:
            check_usable(path)
        assert refused.value.path == tmp_path
    assert os.listdir(tmp_path) == ["file"]
