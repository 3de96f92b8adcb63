"""Files are written atomically: until a write is complete, an existing file at that path is unchanged."""

import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from jaxmatch import files
from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.files import directory_atomically, open_atomically, remove_abandoned, write_atomically
from jaxmatch.papers.timing import read_times


def test_file_is_replaced_only_when_the_block_succeeds(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("old")
    with open_atomically(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    with pytest.raises(KeyboardInterrupt), open_atomically(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["one.txt"]


def test_links_are_followed_pipes_are_written_to_and_parents_are_created(tmp_path):
    write_atomically(tmp_path / "a" / "one.txt", "é")
    (tmp_path / "link.txt").symlink_to("a/one.txt")
    write_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "a" / "one.txt").read_text() == "new"
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_atomically(pipe, "all of it")
    reader.join(10)
    assert read == ["all of it"] and pipe.is_fifo()


def test_error_names_the_file_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, open_atomically(tmp_path / "missing" / "one.txt"):
        pass
    assert caught.value.filename == str(tmp_path / "missing" / "one.txt")


def test_the_mode_of_a_replaced_file_is_kept_and_a_new_one_follows_the_umask(tmp_path):
    path, folder = tmp_path / "secret", tmp_path / "folder"
    path.touch(0o600)
    folder.mkdir(0o700)
    with open_atomically(path) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600  # even before the first write
        file.write(b"new")
    with directory_atomically(folder):
        pass
    umask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", "")
    finally:
        os.umask(umask)
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("secret", "folder", "new")}
    assert modes == {"secret": 0o600, "folder": 0o700, "new": 0o640}


def _save_array(path):
    with directory_atomically(path) as folder:
        np.save(folder / "array.npy", np.zeros(100_000))


@pytest.mark.parametrize("write", [lambda path: write_atomically(path, b"x" * 100_000), _save_array])
def test_file_size_limit_error_names_the_target(tmp_path, write):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            write(tmp_path / "it")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename.startswith(str(tmp_path / "it"))
    assert caught.value.errno and caught.value.strerror
    assert os.listdir(tmp_path) == []


def test_error_inside_the_block_names_the_target_folder(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, directory_atomically(tmp_path / "it") as folder:
        (folder / "missing" / "file").touch()
    assert caught.value.filename == str(tmp_path / "it" / "missing" / "file")
    with pytest.raises(FileNotFoundError) as caught, directory_atomically(tmp_path / "it"):
        open(tmp_path / "other")
    assert caught.value.filename == str(tmp_path / "other")


def test_folder_does_not_replace_a_file_and_follows_symlinks(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), directory_atomically(tmp_path / "file"):
        pass
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "one").touch()
    (tmp_path / "link").symlink_to("old")
    with directory_atomically(tmp_path / "link") as folder:
        (folder / "two").touch()
    assert os.listdir(tmp_path / "old") == ["two"] and (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "old"]


WRITER = """
import sys, time
from jaxmatch.files import directory_atomically, open_atomically
with open_atomically(sys.argv[1] + "/file") as file, directory_atomically(sys.argv[1] + "/folder") as folder:
    (folder / "part").touch()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_partial_files_of_killed_writers_are_removed_and_of_live_ones_kept(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        assert all(writer.stdout.readline() == b"writing\n" for writer in writers)
        (tmp_path / ".notes.partial").touch()
        (tmp_path / ".link.1.ab.partial").symlink_to(".notes.partial")
        with open_atomically(tmp_path / "own"), directory_atomically(tmp_path / "own folder"):
            remove_abandoned(tmp_path)
            assert len(os.listdir(tmp_path)) == 8
        writers[0].send_signal(signal.SIGKILL)
        writers[0].wait()
        remove_abandoned(tmp_path)
        left = {name for name in os.listdir(tmp_path) if f".{writers[0].pid}." in name}
        assert not left and len([name for name in os.listdir(tmp_path) if f".{writers[1].pid}." in name]) == 2
        assert (tmp_path / ".notes.partial").exists() and (tmp_path / ".link.1.ab.partial").is_symlink()
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    remove_abandoned(tmp_path / "missing")


def test_scratch_file_removed_before_it_is_locked_is_recreated(tmp_path, monkeypatch):
    flock, removed = fcntl.flock, []

    def lock_too_late(descriptor, operation):
        if not operation & fcntl.LOCK_NB and not removed:
            removed.append(True)
            remove_abandoned(tmp_path)
            assert not os.listdir(tmp_path)
        return flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    write_atomically(tmp_path / "file", "all of it")
    assert removed == [True] and os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "all of it"
    removed.clear()
    (tmp_path / "file").unlink()
    with directory_atomically(tmp_path / "folder") as folder:
        (folder / "part").touch()
    assert removed == [True] and os.listdir(tmp_path) == ["folder"] and os.listdir(tmp_path / "folder") == ["part"]


def test_json_is_utf_8_and_keeps_file_names_that_are_not(tmp_path):
    path, value = tmp_path / "notes.json", {os.fsdecode(b"pa\xe4rs.tsv"): ["\\\udce4", "é\U0001f600"]}
    files.write_json(path, value)
    assert files.read_json(path) == value
    assert r"pa\udce4rs" in path.read_text("utf-8")
    for content in ('"é"'.encode("utf-16"), b'"\xed\xa0\x80"', b'"\xe9"'):
        path.write_bytes(content)
        with pytest.raises(ValueError):
            files.read_json(path)
    path.unlink()
    os.mkfifo(path)  # reading it would wait for a writer
    with pytest.raises(InputError, match="this is not a file; remove it"):
        files.read_json(path)


@pytest.mark.parametrize("exchanged", [sys.platform == "linux", False])
def test_folder_is_replaced(tmp_path, monkeypatch, exchanged):
    for text in ("old", "new"):
        if text == "new":
            if exchanged:  # only Linux exchanges two names in one step
                monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("there is a moment without a folder"))
            else:
                monkeypatch.setattr(files, "EXCHANGE", -1)
        with directory_atomically(tmp_path / "it") as folder:
            (folder / "text").write_text(text)
    assert (tmp_path / "it" / "text").read_text() == "new"
    assert os.listdir(tmp_path) == ["it"]


# --- pipes, devices and folders


RESULTS = Path(__file__).parent.parent / "results"


def _pipe(path: Path) -> Path:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def _refused(capsys, words, place, problem):
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"jaxmatch: {place}: {problem}") and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    ("command", "kind"), [("sweep", "pipe"), ("train", "device"), ("tune", "folder"), ("timing", "pipe")]
)
def test_a_pipe_device_or_folder_in_place_of_a_sweep_file_is_refused(tmp_path, capsys, command, kind):
    path = _pipe(tmp_path / "x.py") if kind == "pipe" else Path("/dev/zero") if kind == "device" else tmp_path
    _refused(capsys, [command, path], path, "this is not a file; give a file of configs/")


def test_pipes_as_records_sweep_notes_or_figure_values_are_refused(tmp_path, capsys):
    folder = tmp_path / "sweep"
    shutil.copytree(RESULTS / "quickstart", folder)
    file = _pipe(next((folder / "runs").glob("*/record.json")))
    for command in (["table", folder], ["report", folder], ["figure", folder, "--output", tmp_path]):
        _refused(capsys, command, file, "this is not a file")
    assert not (folder / "report.html").exists()
    notes = _pipe(folder / "sweep.json")
    _refused(capsys, ["table", folder], notes, "this is not a file")
    values = _pipe(tmp_path / "curves.json")
    _refused(capsys, ["figure", values, "--output", tmp_path], values, "this is not a file")
    with pytest.raises(InputError, match="this is not a file"):
        read_times(_pipe(tmp_path / "timing.json"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"x = 1\0\n", "null bytes"),
        (b"x = " + b"-" * 100_000 + b"1", ""),
    ],
)
def test_a_sweep_file_that_is_not_valid_python_is_refused(tmp_path, capsys, content, problem):
    file = tmp_path / "a.py"
    file.write_bytes(content)
    assert main(["sweep", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"jaxmatch: {file}:") and problem in err and err.count("\n") == 1


def test_undrawable_figure_values_are_refused(tmp_path, capsys):
    point = {"samples": 10, "mean": 0.5, "deviation": None, "seeds": 1}
    setting = {"name": "a", "seeds": [1], "points": [point, {**point, "samples": "many"}]}
    file = tmp_path / "curves.json"
    file.write_text(json.dumps({"kind": "curves", "score": "dev.mrr", "settings": [setting]}))
    _refused(capsys, ["figure", file, "--output", tmp_path / "out"], file, "the file is damaged")
    assert not (tmp_path / "out").exists()
