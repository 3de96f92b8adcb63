"""Commands in processes of their own, forked from one that has imported everything and started nothing."""

import contextlib
import dataclasses
import gc
import importlib
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import jaxmatch

LIMIT_S = 120
MOST_MEMORY_MIB = 3000


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """The result of a command.

    Attributes:
      status: the exit status; minus the signal number if a signal killed the command; None if it exceeded its time.
      output: its standard output.
      errors: its standard error.
      seconds: the seconds from its start to its end.
      memory_mib: its peak memory in MiB.
    """

    status: int | None
    output: str
    errors: str
    seconds: float
    memory_mib: float


class Command:
    """A running jaxmatch command.

    Arguments:
      words: those after `jaxmatch`, or what to call instead of the command.
      folder: an existing folder for what it prints.
      prepare: called in the new process first, to limit it.
      output: a file or device in place of standard output.
      given: a file as standard input.
    """

    def __init__(
        self,
        words: list[str] | Callable[[], int | None],
        folder: Path,
        prepare: Callable[[], None] | None = None,
        output: str = "",
        given: str = os.devnull,
    ):
        number = len(list(folder.glob("*.stderr")))
        self._texts = [Path(output or folder / f"{number}.stdout"), folder / f"{number}.stderr"]
        self._began, self._ended = time.monotonic(), None
        sys.stdout.flush()
        sys.stderr.flush()
        # A limit on the size of files must not truncate the error message. It goes through a process without limits.
        self._relay = None
        if prepare:
            with open(self._texts[1], "wb") as errors:
                self._relay = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=errors)
        self.pid = os.fork()
        if not self.pid:
            self._run_child(words, prepare, given)
        if self._relay:
            self._relay.stdin.close()

    def _run_child(self, words, prepare, given):
        """The life of the new process."""
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(os.open(given, os.O_RDONLY), 0)
            for number, path in enumerate(self._texts, start=1):
                relayed = self._relay and path == self._texts[1]
                os.dup2(
                    self._relay.stdin.fileno()
                    if relayed
                    else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666),
                    number,
                )
            if self._relay:
                self._relay.stdin.close()
            if prepare:
                prepare()
            from jaxmatch.cli.main import main

            status = (words() or 0) if callable(words) else main(words)
            sys.stdout.flush()
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os._exit(status)

    def kill(self, number: int) -> None:
        """Sends a signal."""
        if self._ended is None:
            os.kill(self.pid, number)

    def said(self) -> str:
        """What it has said so far."""
        return self._texts[1].read_text(errors="replace")

    def has_exited(self) -> bool:
        """Returns whether the command has exited."""
        if self._ended is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._ended = (
                    os.waitstatus_to_exitcode(status),
                    time.monotonic() - self._began,
                    usage.ru_maxrss / 1024,
                )
        return self._ended is not None

    def wait(self, limit_s: float = LIMIT_S) -> CommandResult:
        """Waits for its end, and makes one after `limit_s` seconds."""
        late, pause = False, 0.002
        while not self.has_exited():
            if not late and time.monotonic() - self._began > limit_s:
                late = True
                os.kill(self.pid, signal.SIGCONT)
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(0.05, pause * 1.3)
        if self._relay:
            self._relay.wait()
        status, seconds, memory = self._ended
        output, errors = (path.read_text(errors="replace") if path.is_file() else "" for path in self._texts)
        return CommandResult(None if late else status, output, errors, seconds, memory)


def import_everything() -> None:
    """Imports all of jaxmatch, for the processes forked later, and starts nothing."""
    for module in pkgutil.walk_packages(jaxmatch.__path__, "jaxmatch."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # else each process would look through all of it, and copy it


def run_command(words, folder: Path, *, limit_s: float = LIMIT_S, **arguments) -> CommandResult:
    """Runs a command to its end; arguments as those of `Command`."""
    return Command(words, folder, **arguments).wait(limit_s)


def limited(kind: int, most: int) -> Callable[[], None]:
    """A preparation that sets a limit of the `resource` module; too large a file is then an error, as for a program of
    Python.
    """

    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(kind, (most, most))

    return prepare


def as_nobody() -> None:
    """A preparation: the command is run by a user who owns nothing."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
