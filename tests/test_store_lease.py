"""Only one command drives a sweep in a store. Another command takes over the sweep of a dead one."""

import json
import os
import subprocess
import sys
import time

import pytest

from jaxmatch.errors import InputError
from jaxmatch.store import Store
from jaxmatch.sweep import store_lease
from jaxmatch.sweep.store_lease import NAME, Lease


@pytest.fixture
def store(tmp_path, monkeypatch):
    for name, seconds in (("BETWEEN_HEARTBEATS", 0.02), ("TO_EXPIRE", 0.3), ("TO_SETTLE", 0.05)):
        monkeypatch.setattr(store_lease, f"SECONDS_{name}", seconds)
    return Store(f"memory://{tmp_path.name}")


def write_other_lease(store, process=1, **changes):
    store.write(NAME, json.dumps({"id": "other", "machine": "there", "process": process} | changes).encode())


def test_a_second_command_is_refused_while_the_first_is_running(store):
    first = Lease(store)
    with pytest.raises(InputError, match=rf"{store.url}: process {os.getpid()} on .* trains with this store; wait for"):
        Lease(store)
    first.check()
    first.release()
    assert store.read(NAME) is None
    Lease(store).release()


def test_the_lease_of_a_dead_local_process_is_taken_immediately(store, tmp_path, monkeypatch):
    monkeypatch.setattr(store_lease, "SECONDS_TO_EXPIRE", 3600.0)
    code = (
        "import sys; from jaxmatch.store import Store; from jaxmatch.sweep import store_lease\n"
        "store_lease.Lease(Store(sys.argv[1])); import os; os._exit(0)"
    )
    folder = f"file://{tmp_path}"
    subprocess.run([sys.executable, "-c", code, folder], check=True)
    left = json.loads(Store(folder).read(NAME))
    assert left["process"] != os.getpid()
    Lease(Store(folder)).release()
    assert Store(folder).read(NAME) is None


def test_the_lease_of_a_silent_remote_command_is_taken_after_it_expires(store, capsys):
    write_other_lease(store)
    begun = time.monotonic()
    lease = Lease(store)
    assert time.monotonic() - begun > 0.3
    lease.release()
    assert "waiting to see whether another command still uses" in capsys.readouterr().err


def test_only_one_of_two_concurrent_takeovers_succeeds(store, monkeypatch):
    write_other_lease(store)
    sleep = time.sleep

    def another_is_quicker(seconds):
        if seconds == store_lease.SECONDS_TO_SETTLE:
            write_other_lease(store, id="third")
        sleep(seconds)

    monkeypatch.setattr(store_lease.time, "sleep", another_is_quicker)
    with pytest.raises(InputError, match="another command has just taken over this store; wait for it"):
        Lease(store)


def test_a_lost_lease_raises_and_the_new_lease_is_kept(store):
    lease = Lease(store)
    write_other_lease(store)
    end = time.monotonic() + 10
    with pytest.raises(InputError, match="another command has taken over this store"):
        while time.monotonic() < end:
            lease.check()
            time.sleep(0.01)
    lease.release()
    assert json.loads(store.read(NAME))["id"] == "other"


def test_a_damaged_lease_is_taken_over(store):
    store.write(NAME, b"{")
    Lease(store).release()


def test_a_suspended_command_checks_the_lease_before_it_resumes(store, monkeypatch):
    """After Ctrl-Z and fg, for example, the next beat may be seconds away."""
    monkeypatch.setattr(store_lease, "SECONDS_BETWEEN_HEARTBEATS", 3600.0)
    lease = Lease(store)
    write_other_lease(store)
    lease.check()  # the takeover is not known yet
    later = time.time() + 3 * 3600
    monkeypatch.setattr(store_lease.time, "time", lambda: later)
    with pytest.raises(InputError, match="another command has taken over this store"):
        lease.check()
    lease.release()
