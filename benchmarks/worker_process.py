"""A process, ours or a peer's, that answers requests (one JSON object a line) and times its own work."""

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


class WorkerStopped(RuntimeError):
    """Raised if the process ended instead of answering. Its message is on standard error."""


class WorkerProcess:
    """A running process that answers requests. It sleeps between requests, so that its work can be timed in turn with
    other work.

    Arguments:
      command: the command that starts the process, which then sends a first answer without a request.
      environment: the environment variables of the process.

    Attributes:
      about: the first answer.

    Raises:
      WorkerStopped: the process ended before its first answer.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]):
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment)
        )
        try:
            self.about = self._answer()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Sends one command to the process, and returns the answer.

        Raises:
          WorkerStopped: the process ended instead of answering.
        """
        with contextlib.suppress(BrokenPipeError):  # the process has ended, and `_answer` raises the error
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise WorkerStopped(f"{' '.join(self._process.args)} ended without an answer")
        return json.loads(line)
