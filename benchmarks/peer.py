"""The public PyTorch RE2, for comparison: a checkout that the user names, in its own process and Python."""

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from benchmarks import ceiling
from benchmarks.worker_process import WorkerProcess, WorkerStopped
from jaxmatch.errors import InputError

WORKER = Path(__file__).with_name("peer_worker.py")
# Column -> `sort_by_len` of the peer: its batches as released, and sorted by length. The goals refer to the latter.
SORT_BY_LEN = {"peer": False, "sorted": True}


class PeerEnded(InputError):
    """Raised if the peer's process ended."""


class Peer(WorkerProcess):
    """A process that runs the checkout's own code and times it there. `peer_worker.py` lists the requests. The process
    has huge pages if this one has them.

    Arguments:
      checkout: the folder of the checkout.
      python: the Python to run it with.

    Raises:
      InputError: the checkout, or something that it needs, is missing, or its PyTorch sees no GPU while JAX does.
    """

    def __init__(self, checkout: str, python: str):
        if not (Path(checkout) / "src" / "network.py").is_file():
            raise InputError("this is no checkout of simple-effective-text-matching-pytorch", path=checkout)
        environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve())}
        try:
            super().__init__([python, "-P", str(WORKER)], environment)
        except OSError as error:
            raise InputError(f"--peer-python cannot be started ({error.strerror})", path=python) from None
        if jax.default_backend() == "gpu" and self.about["device"].startswith("cpu"):
            self.__exit__()
            raise InputError("the peer's PyTorch sees no GPU", remedy="give --peer-python a Python whose PyTorch does")

    @property
    def name(self) -> str:
        """The version and the device of the peer, for a note."""
        products = "TF32" if self.tf32 else "float32"
        return f"the public PyTorch RE2, torch {self.about['torch']}, {self.about['device']}, products in {products}"

    @functools.cached_property
    def tf32(self) -> bool:
        """Whether the peer multiplies in TF32 on a GPU. It does if JAX does so by default; PyTorch's own default is
        float32.
        """
        return ceiling.default_products() == "TF32"

    def build(self, settings: Mapping[str, Any], folder: str = "") -> dict[str, Any]:
        """Makes the peer build a model whose products have the same precision as ours."""
        return self.request("build", settings=settings, folder=folder, tf32=self.tf32)

    def training(self, steps: int) -> dict[str, Callable[[], float]]:
        """Returns column -> a function that measures `pair_seconds` with `steps` steps."""
        return {key: functools.partial(self.pair_seconds, steps, by_length) for key, by_length in SORT_BY_LEN.items()}

    def pair_seconds(self, steps: int, sort_by_len: bool) -> float:
        """Measures the seconds of training per pair, averaged over an epoch, from some steps. A first step does not
        count, as in steps.py.

        A batch is as long as its longest sentences, and some batches are much longer than others. The time per token,
        padding included, is therefore measured and multiplied by the mean number of tokens of a pair in the epoch.
        """
        self.request("train", steps=1, sort_by_len=sort_by_len)
        answer = self.request("train", steps=steps, sort_by_len=sort_by_len)
        return answer["seconds"] / answer["tokens"] * answer["epoch_tokens"]

    def _answer(self) -> dict[str, Any]:
        try:
            return super()._answer()
        except WorkerStopped:
            raise PeerEnded(
                "the peer's process ended",
                remedy="its message is above; --peer-python must name a Python with torch, tqdm, msgpack and "
                "scikit-learn",
            ) from None
