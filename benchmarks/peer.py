"""The public PyTorch RE2, for comparison: a checkout that the user names, in its own process and Python."""

import contextlib
import functools
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from benchmarks import ceiling
from jaxmatch.data.encoding import EncodedData
from jaxmatch.errors import InputError

WORKER = Path(__file__).with_name("peer_worker.py")
# Column -> `sort_by_len` of the peer: its batches as released, and sorted by length. The goals refer to the latter.
SORT_BY_LEN = {"peer": False, "sorted": True}


_CONNECTIONS = {"augmented": "aug", "augmented_running_sum": "aug", "vanilla_running_sum": "residual", "none": "none"}


class PeerEnded(InputError):
    """Raised if the peer's process ended."""


class Peer:
    """A process that runs the checkout's own code and times it there. It answers requests, one JSON object a line
    (`peer_worker.py` lists them), and sleeps between them, so that its work can be timed in turn with ours. The process
    has huge pages if this one has them.

    Arguments:
      checkout: the folder of the checkout.
      python: the Python to run it with.

    Attributes:
      about: the version of PyTorch and the device, {"torch", "device"}.

    Raises:
      InputError: the checkout, or something that it needs, is missing, or its PyTorch sees no GPU while JAX does.
    """

    def __init__(self, checkout: str, python: str):
        if not (Path(checkout) / "src" / "network.py").is_file():
            raise InputError("this is no checkout of simple-effective-text-matching-pytorch", path=checkout)
        environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve())}
        try:
            command = [python, "-P", str(WORKER)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen(command, text=True, env=environment, **pipes)
        except OSError as error:
            raise InputError(f"--peer-python cannot be started ({error.strerror})", path=python) from None
        try:
            self.about = self._answer()
        except BaseException:
            self.__exit__()
            raise
        if jax.default_backend() == "gpu" and self.about["device"].startswith("cpu"):
            self.__exit__()
            raise InputError("the peer's PyTorch sees no GPU", remedy="give --peer-python a Python whose PyTorch does")

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Sends one command to the process, and returns the answer.

        Raises:
          PeerEnded: the process ended instead of answering.
        """
        with contextlib.suppress(BrokenPipeError):  # the process has ended, and `_answer` raises the error
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        if line := self._process.stdout.readline():
            return json.loads(line)
        remedy = "its message is above; --peer-python must name a Python with torch, tqdm, msgpack and scikit-learn"
        raise PeerEnded("the peer's process ended", remedy=remedy)

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


def write_peer_data(data: EncodedData, folder: Path) -> Path:
    """Writes `SPLIT.txt` for every split, and returns the folder. A line has both texts and the label, separated by
    tabs. Tokens are separated by spaces.

    Arguments:
      data: the data that we train on. A token that our vocabulary lacks becomes "<unknown>".
      folder: the folder to write to, which is created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = data.vocabulary.words
    for name, split in data.splits.items():
        ends = zip(
            split.offsets_a, split.offsets_a[1:], split.offsets_b, split.offsets_b[1:], split.labels, strict=False
        )
        with open(folder / f"{name}.txt", "w", encoding="utf-8") as file:
            for start_a, end_a, start_b, end_b, label in ends:
                text_a = " ".join(words[token] for token in split.tokens_a[start_a:end_a])
                text_b = " ".join(words[token] for token in split.tokens_b[start_b:end_b])
                file.write(f"{text_a}\t{text_b}\t{data.labels[label]}\n")
    return folder


def peer_settings(config: Any, data: EncodedData) -> dict[str, Any]:
    """Returns the same model, batch size and learning rate as settings for the peer's `build`."""
    model = config.model
    return {
        "blocks": model.blocks,
        "enc_layers": model.encoder_layers,
        "hidden_size": model.hidden_size,
        "alignment": model.alignment,
        "fusion": model.fusion,
        "connection": _CONNECTIONS[model.connection],
        "prediction": model.prediction,
        "embedding_dim": int(data.vectors.shape[1]),
        "dropout": config.optimizer.dropout_rate,
        "batch_size": config.training.batch_size,
        "lr": config.optimizer.learning_rate,
    }
