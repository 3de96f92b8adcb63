"""A program: launches a command again and again, and kills each launch in the middle of its work.

    python killed_launches.py WORKDIR N,N,... words of the jaxmatch command

A launch dies by SIGKILL just before the N-th time that it makes, opens for writing, renames or removes a file or folder
below WORKDIR. Every launch is a fork of this process, which has imported everything and started nothing. Prints the
exit statuses as JSON.
"""

import json
import os
import signal
import sys

import jaxmatch.sweep.launch  # noqa: F401  what the command would import later
from jaxmatch.cli.main import main

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate"}


def die_at(event: int, workdir: str) -> None:
    """Lets this process kill itself at the given change below the folder."""
    count = 0

    def hook(name, arguments):
        nonlocal count
        writes = name == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not writes and name not in CHANGES:
            return
        if str(arguments[0]).startswith(workdir):
            count += 1
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def launch(event: int, workdir: str, words: list[str]) -> int:
    """One launch in a process of its own; its exit status, -9 when it was killed."""
    child = os.fork()
    if not child:
        status = 1
        try:
            die_at(event, workdir)
            status = main(words)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    workdir, events, *words = sys.argv[1:]
    print(json.dumps([launch(int(event), workdir, words) for event in events.split(",")]))
