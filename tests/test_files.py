"""Files appear whole or not at all, and what stood in their place stays what it was."""

import os
import threading

import pytest

from jaxmatch.files import open_atomically, write_atomically


def test_a_file_is_replaced_when_the_block_ends_well(tmp_path):
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


def test_folders_on_the_way_are_made(tmp_path):
    write_atomically(tmp_path / "a" / "b" / "one.txt", "é")
    assert (tmp_path / "a" / "b" / "one.txt").read_bytes() == "é".encode()


def test_a_link_is_followed(tmp_path):
    (tmp_path / "one.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("one.txt")
    write_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "one.txt").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_or_device_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_atomically(pipe, "all of it")
    reader.join(10)
    assert read == ["all of it"] and pipe.is_fifo()


def test_what_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, open_atomically(tmp_path / "missing" / "one.txt"):
        pass
    assert caught.value.filename == str(tmp_path / "missing" / "one.txt")
