"""A process of ours or of a peer that is asked things, one JSON object a line, and times its own work."""

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


class Ended(RuntimeError):
    """The process ended instead of answering; its message is on standard error."""


class Conversation:
    """A running process. It sleeps while it is not asked anything, so that its work can be timed in turn with other
    work.

    Arguments:
      command: starts it; it answers once by itself.
      environment: its variables.

    Attributes:
      about: its first answer.

    Raises:
      Ended: it could not start.
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

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """One command of the process and its answer.

        Raises:
          Ended: it ended instead.
        """
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and gives no answer
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise Ended(f"{' '.join(self._process.args)} ended without an answer")
        return json.loads(line)
