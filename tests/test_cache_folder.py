"""Where encoded data and compiled programs are kept."""

from pathlib import Path

import pytest

from jaxmatch.errors import InputError
from jaxmatch.sweep.preparation import cache_folder


def test_as_named_or_as_the_system_has_it_or_in_the_home(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch")
    assert cache_folder("/fast") == Path("/fast")
    assert cache_folder() == Path("/scratch/jaxmatch")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path("/home/ada/.cache/jaxmatch")


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch):
    """As `docker run --user 12345` without HOME."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(
        InputError, match="no home folder.*config.execution.cache_directory=FOLDER, or the variable XDG_CACHE_HOME"
    ):
        cache_folder()
    assert cache_folder("/fast") == Path("/fast")
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch")
    assert cache_folder() == Path("/scratch/jaxmatch")
