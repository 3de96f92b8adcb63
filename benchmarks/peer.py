"""The public PyTorch RE2, run beside us: a checkout the user points to, in a process and a Python of its own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError

WORKER = Path(__file__).with_name("peer_worker.py")


class Peer:
    """A process that runs the checkout's own code and times it there; `peer_worker.py` says what it can be asked.

    It sleeps while it is not asked anything, so that it can be timed in turn with our work.

    Arguments:
      checkout: the folder of the checkout.
      python: the Python to run it with.

    Raises:
      InputError: the checkout or what it needs is missing.
    """

    def __init__(self, checkout: str, python: str):
        if not (Path(checkout) / "src" / "network.py").is_file():
            raise InputError("this is no checkout of simple-effective-text-matching-pytorch", path=checkout)
        # Idle threads of OpenMP must not spin beside our work.
        environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": str(Path(checkout).resolve())}
        self._process = subprocess.Popen(
            [python, "-P", str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.about = self._answer()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.stdin.close()
        self._process.wait()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """One command of the worker and its answer."""
        self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise InputError(
                "the peer's process ended",
                remedy="its message stands above; --peer-python must name a Python with torch, tqdm, msgpack and scikit-learn",
            )
        return json.loads(line)
