"""A command restarts with huge pages only if the system gives them on request."""

import os
import subprocess
import sys

import pytest

from jaxmatch import devices

EITHER = "always [madvise] never\n"


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A function that simulates a system and returns the restarted (program, arguments, variables), or None."""

    def start(enabled: str | None = EITHER, tunables: str | None = None, libc: str = "glibc"):
        file, calls = tmp_path / "enabled", []
        if enabled is not None:
            file.write_text(enabled)

        def execve(*arguments):
            calls.append(arguments)
            raise OSError("no")  # is ignored

        monkeypatch.setattr(devices, "HUGE_PAGES_FILE", file)
        monkeypatch.setattr(devices.platform, "libc_ver", lambda: (libc, "2.36"))
        monkeypatch.setattr(os, "execve", execve)
        monkeypatch.setattr(sys, "orig_argv", ["python3", "-X", "dev", "-m", "jaxmatch", "sweep", "a b.py"])
        monkeypatch.delenv(devices.TUNABLES, raising=False)
        if tunables is not None:
            monkeypatch.setenv(devices.TUNABLES, tunables)
        devices.restart_with_huge_pages()
        return calls[0] if calls else None

    return start


def test_the_command_restarts_with_the_same_arguments_and_the_variable_set(started):
    program, words, variables = started()
    assert program == sys.executable
    assert words == [sys.executable, "-X", "dev", "-m", "jaxmatch", "sweep", "a b.py"]
    assert variables["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert variables["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    "system",
    [
        {"enabled": "[always] madvise never\n"},
        {"enabled": "always madvise [never]\n"},
        {"enabled": None},
        {"libc": ""},
        {"tunables": "glibc.malloc.hugetlb=0"},
        {"tunables": "glibc.malloc.hugetlb=1"},
    ],
)
def test_there_is_no_restart_if_useless_or_already_configured(started, system):
    assert started(**system) is None


@pytest.mark.skipif("[madvise]" not in devices.huge_pages_setting(), reason="huge pages are for all or for nobody")
def test_a_real_command_restarts_once_with_the_variable_set():
    code = f"import os, runpy, sys; sys.argv = ['x', 'sweep', '--help']; print(os.environ.get('{devices.TUNABLES}'))"
    environment = {name: value for name, value in os.environ.items() if name != devices.TUNABLES}
    output = subprocess.run(
        [sys.executable, "-c", f"{code}; runpy.run_module('jaxmatch', run_name='__main__')"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    ).stdout.splitlines()
    assert output.count("glibc.malloc.hugetlb=1") == 1
