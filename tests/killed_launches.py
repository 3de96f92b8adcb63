"""A program that launches a command several times and kills each launch in the middle of its work.

    python killed_launches.py WORKDIR N,N,... words of the jaxmatch command

Each launch is killed by SIGKILL just before the N-th time that it creates, opens for writing, renames or removes a file
or folder below WORKDIR; with N:PART, one whose path contains PART. Each launch is a fork of this process, which has
imported everything and started nothing. The program prints the exit statuses as JSON.
"""

import json
import os
import signal
import sys
from pathlib import Path

import jaxmatch.sweep.launch  # noqa: F401  what the command would import later
from jaxmatch.cli.main import main

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate"}


def kill_self_at(event: int, folders: tuple[str | Path, ...], part: str = "") -> None:
    """Makes this process kill itself just before its `event`-th change of a path that is below one of the folders and
    contains `part`.
    """
    count, places = 0, tuple(map(str, folders))

    def hook(name, arguments):
        nonlocal count
        writes = name == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or name in CHANGES:
            touched = [str(one) for one in arguments[:2]] if name == "os.rename" else [str(arguments[0])]
            if any(path.startswith(places) and part in path for path in touched):
                count += 1
                if count == event:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def launch(event: str, workdir: str, words: list[str]) -> int:
    """Launches the command in its own process and returns the exit status, which is -9 if the launch was killed."""
    child = os.fork()
    if not child:
        status = 1
        try:
            number, _, part = event.partition(":")
            kill_self_at(int(number), (workdir,), part)
            status = main(words)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    workdir, events, *words = sys.argv[1:]
    print(json.dumps([launch(event, workdir, words) for event in events.split(",")]))
