"""Commands and attacks in processes of their own, forked from one that has imported everything and started nothing."""

import contextlib
import dataclasses
import gc
import importlib
import os
import pkgutil
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import jaxmatch

LIMIT_S, ATTACK_LIMIT_S, AT_ONCE = 120, 300, 2
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
      words: those after `jaxmatch`.
      folder: an existing folder for what it prints.
      prepare: called in the new process first, to limit it.
      output: a file or device in place of standard output.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        prepare: Callable[[], None] = lambda: None,
        output: str = "",
    ):
        number = len(list(folder.glob("*.stderr")))
        self._output, self._errors = Path(output or folder / f"{number}.stdout"), folder / f"{number}.stderr"
        self._began, self._ended = time.monotonic(), None
        sys.stdout.flush()
        sys.stderr.flush()
        # A limit on the size of files must not truncate the error message. It goes through a process without limits.
        with open(self._errors, "wb") as errors:
            self._relay = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=errors)
        self.pid = os.fork()
        if not self.pid:
            self._run_child(words, prepare)
        self._relay.stdin.close()

    def _run_child(self, words, prepare):
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 1)
            os.dup2(self._relay.stdin.fileno(), 2)
            self._relay.stdin.close()
            prepare()
            from jaxmatch.cli.main import main

            status = main(words)
            sys.stdout.flush()
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

    def has_exited(self) -> bool:
        """Returns whether the command has exited."""
        if self._ended is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                seconds = time.monotonic() - self._began
                self._ended = os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss / 1024
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
        self._relay.wait()
        status, seconds, memory = self._ended
        output, errors = (
            path.read_text(errors="replace") if path.is_file() else "" for path in (self._output, self._errors)
        )
        return CommandResult(None if late else status, output, errors, seconds, memory)


def import_everything() -> None:
    """Imports all of jaxmatch, for the processes forked later, and starts nothing."""
    for module in pkgutil.walk_packages(jaxmatch.__path__, "jaxmatch."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # else each process would look through all of it, and copy it


def run_command(words: Sequence[str], folder: Path, *, limit_s: float = LIMIT_S, **arguments) -> CommandResult:
    """Runs a command to its end; arguments as those of `Command`."""
    return Command(words, folder, **arguments).wait(limit_s)


def limited(kind: int, most: int) -> Callable[[], None]:
    """A preparation that sets a limit of the `resource` module; too large a file is then an error."""

    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(kind, (most, most))

    return prepare


def as_nobody() -> None:
    """A preparation: the command is run by a user who owns nothing."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
      name: the name, which with the seed determines all random choices of the attack.
      make: a function of an empty folder and a random generator. It makes the attack, and returns "" if it passed, or
        else what went wrong. A file `count` beside the folder holds how many attacks it was, such as the kills of one
        sweep, or 0 if the attack was not made (`not_made`); without the file it was one.
    """

    name: str
    make: Callable[[Path, random.Random], str]


def not_made(folder: Path) -> str:
    """Returns the result of an attack that this system or user cannot make, and makes it count as no attack."""
    (folder.parent / "count").write_text("0")
    return ""


def run_attacks(attacks: Iterable[Attack], folder: Path, seed: int) -> Iterator[tuple[Attack, int, str]]:
    """Runs attacks, two at a time, and yields (attack, `count`, what went wrong or "") as each of them ends."""
    waiting = iter(enumerate(attacks))
    running: dict[int, tuple[Attack, Path, float]] = {}
    try:
        while True:
            while len(running) < AT_ONCE and (following := next(waiting, None)):
                number, attack = following
                place = folder / str(number)
                place.mkdir()
                running[_start(attack, place, seed)] = (attack, place, time.monotonic())
            if not running:
                return
            for pid, (attack, place, began) in list(running.items()):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    verdict, count = place / "verdict", place / "count"
                    problem = verdict.read_text() if verdict.exists() else "the attack itself died"
                    yield attack, int(count.read_text()) if count.exists() else 1, problem
                elif time.monotonic() - began > ATTACK_LIMIT_S:
                    _kill(pid)
                    yield attack, 1, f"it hangs: no end in {ATTACK_LIMIT_S} s"
                else:
                    continue
                del running[pid]
                _remove(place)
            time.sleep(0.005)
    finally:
        for pid, (_, place, _) in running.items():
            _kill(pid)
            _remove(place)


def _start(attack: Attack, place: Path, seed: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        (place / "work").mkdir()
        os.chmod(place, 0o755)
        os.chmod(place / "work", 0o777)
        os.chdir(place / "work")  # what a command leaves in the current folder goes with the attack
        problem = attack.make(place / "work", random.Random(f"{seed} {attack.name}"))
    except BaseException:
        problem = f"the attack itself failed: {traceback.format_exc().strip()[-600:]}"
    (place / "verdict").write_text(" ".join(problem.split()).replace(str(place / "work"), "FOLDER"))
    os._exit(0)


def _kill(pid: int) -> None:
    """Ends an attack with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _remove(place: Path) -> None:
    for path in [place, *place.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            os.chmod(path, 0o755)
    shutil.rmtree(place, ignore_errors=True)
