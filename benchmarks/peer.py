"""Runs the public PyTorch RE2 for comparison: a checkout that the user names, in its own process and Python."""

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import ceiling
from benchmarks.conversation import Conversation, Ended
from jaxmatch.errors import InputError

WORKER = Path(__file__).with_name("peer_worker.py")
# Column -> `sort_by_len` of the peer: as released, and its batches sorted by length, against which the goals are.
SORT_BY_LEN = {"peer": False, "sorted": True}


class PeerEnded(InputError):
    """The peer's process ended."""


class Peer(Conversation):
    """A process that runs the checkout's own code and times it there; `peer_worker.py` says what it can be asked. It
    has huge pages if we have them.

    Arguments:
      checkout: the folder of the checkout.
      python: the Python to run it with.

    Raises:
      InputError: the checkout or what it needs is missing.
    """

    def __init__(self, checkout: str, python: str):
        if not (Path(checkout) / "src" / "network.py").is_file():
            raise InputError("this is no checkout of simple-effective-text-matching-pytorch", path=checkout)
        environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve())}
        super().__init__([python, "-P", str(WORKER)], environment)

    @property
    def name(self) -> str:
        """What it is and runs on, for a note."""
        products = "TF32" if self.tf32 else "float32"
        return f"the public PyTorch RE2, torch {self.about['torch']}, {self.about['device']}, products in {products}"

    @functools.cached_property
    def tf32(self) -> bool:
        """Whether its products are TF32 on a GPU: where ours are by default. PyTorch's own default is float32."""
        return ceiling.default_products() == "TF32"

    def build(self, settings: Mapping[str, Any], folder: str = "") -> dict[str, Any]:
        """Has it make a model, which multiplies as ours does."""
        return self.ask("build", settings=settings, folder=folder, tf32=self.tf32)

    def training(self, steps: int) -> dict[str, Callable[[], float]]:
        """Column -> `pair_seconds` of so many steps."""
        return {key: functools.partial(self.pair_seconds, steps, by_length) for key, by_length in SORT_BY_LEN.items()}

    def pair_seconds(self, steps: int, sort_by_len: bool) -> float:
        """Seconds of training per pair, averaged over an epoch, from some steps. A first step does not count, as in
        steps.py.

        A batch is as long as its longest sentences, which some batches have much longer than others: what is timed is a
        token, padding included, and an epoch's tokens are counted.
        """
        self.ask("train", steps=1, sort_by_len=sort_by_len)
        answer = self.ask("train", steps=steps, sort_by_len=sort_by_len)
        return answer["seconds"] / answer["tokens"] * answer["epoch_tokens"]

    def _answer(self) -> dict[str, Any]:
        try:
            return super()._answer()
        except Ended:
            raise PeerEnded(
                "the peer's process ended",
                remedy="its message is above; --peer-python must name a Python with torch, tqdm, msgpack and "
                "scikit-learn",
            ) from None
