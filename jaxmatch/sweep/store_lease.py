"""The lease of an object store, which ensures that only one command at a time drives the sweep there.

    STORE/lease    the machine and process of the command, and a number that the command changes while it lives

A lease is created atomically if the store can do that (`Store.create`). If the number of a lease does not change any
more, its command is dead, and another command takes the lease over. A command that finds another command's lease in
place of its own has lost it.
"""

import contextlib
import json
import os
import secrets
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.store import Store, StoreError

NAME = "lease"
SECONDS_BETWEEN_HEARTBEATS = 10.0
# A command without a heartbeat for this long is dead, because the retries of a store end sooner (`store.WAITS`).
SECONDS_TO_EXPIRE = 90.0
# The wait before a lease that was taken over counts. Another command may have taken it over at the same time.
SECONDS_TO_SETTLE = 2.0


class Lease:
    """The lease of a store, held until it is released.

    Arguments:
      store: the store.

    Raises:
      InputError: another command holds the lease.
      StoreError: the store cannot be used.
    """

    def __init__(self, store: Store):
        self._store, self._id, self._beat = store, secrets.token_hex(8), 0
        self._ended, self._lost = threading.Event(), False
        self._acquire()
        self._held_at = time.time()
        self._thread = threading.Thread(target=self._send_heartbeats, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Checks that this command still holds the lease.

        If this process was suspended, another command may have taken the lease over since the last heartbeat. Then the
        lease in the store is read again.

        Raises:
          InputError: another command has taken over the lease.
        """
        if time.time() - self._held_at > 2 * SECONDS_BETWEEN_HEARTBEATS:
            with contextlib.suppress(StoreError):
                self._refresh()
        if self._lost:
            raise InputError(
                "another command has taken over this store",
                path=self._store.url,
                remedy="let it finish, or stop it and run this one again",
            )

    def release(self) -> None:
        """Releases the lease and removes it from the store."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(StoreError):
            if self._is_ours(self._store.read(NAME)):
                self._store.remove(NAME)

    def _content(self) -> bytes:
        return json.dumps({"id": self._id, "beat": self._beat, **_this_process()}).encode()

    def _is_ours(self, content: bytes | None) -> bool:
        return _parsed(content).get("id") == self._id

    def _acquire(self) -> None:
        if self._store.create(NAME, self._content()) or self._is_ours(content := self._store.read(NAME)):
            return
        holder = _parsed(content)
        if not _dead(holder):
            sys.stderr.write(f"waiting to see whether another command still uses {self._store.url}\n")
            end = time.monotonic() + SECONDS_TO_EXPIRE
            while time.monotonic() < end:
                time.sleep(SECONDS_BETWEEN_HEARTBEATS / 4)
                now = self._store.read(NAME)
                if now is None and self._store.create(NAME, self._content()):
                    return
                if now != content:
                    raise InputError(
                        f"process {holder.get('process')} on {holder.get('machine')} trains with this store",
                        path=self._store.url,
                        remedy="wait for it, or give another --store",
                    )
        self._store.write(NAME, self._content())
        time.sleep(SECONDS_TO_SETTLE)
        if not self._is_ours(self._store.read(NAME)):
            raise InputError(
                "another command has just taken over this store", path=self._store.url, remedy="wait for it"
            )

    def _send_heartbeats(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_HEARTBEATS):
            with contextlib.suppress(StoreError):
                self._refresh()
                if self._lost:
                    return
                self._beat += 1
                self._store.write(NAME, self._content())

    def _refresh(self) -> None:
        content = self._store.read(NAME)
        if content is not None and not self._is_ours(content):
            self._lost = True
        self._held_at = time.time()


def _this_process() -> dict[str, Any]:
    process = os.getpid()
    return {"machine": socket.gethostname(), "system": _system(), "process": process, "started": _started(process)}


def _system() -> str:
    """Returns an id of this boot of this machine and of this container, or "" if it is not known."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/pid")
    return ""


def _started(process: int) -> str:
    """Returns when a process of this machine started, or "" if the process does not exist or its start is unknown."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _dead(holder: dict[str, Any]) -> bool:
    """Returns whether the holder of a lease was a process of this machine that does not exist any more."""
    if not _system() or holder.get("system") != _system() or not holder.get("started"):
        return False
    return _started(holder["process"]) != holder["started"]


def _parsed(content: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
