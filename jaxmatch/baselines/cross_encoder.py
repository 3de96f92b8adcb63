"""A pretrained cross-encoder from a local folder, as the package transformers saves it: a line of a comparison.

It reads both texts of a pair at once, by its own tokenizer, and nothing of it is trained here. Its labels are those of
the data by name, whatever their case; other labels of it are no answers. A cross-encoder with one output gives the
prediction of a regression, or, of two labels, the logit of the second.
"""

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.data.dataset import Split
from jaxmatch.errors import InputError
from jaxmatch.files import hash_file

NAME = "cross_encoder"  # of its line
_PAIRS_AT_ONCE = 32
_CONFIG, _WEIGHTS = "config.json", "*.safetensors"
_REMEDY = "give a folder that a sequence classifier and its tokenizer of transformers were saved to"


def check_usable(folder: str | Path) -> None:
    """Refuses, before anything is trained, what cannot be loaded.

    Raises:
      InputError: transformers or torch is not installed, or there is no such folder with a model.
    """
    for package in ("transformers", "torch"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"a cross-encoder needs {package}, which is not installed",
                remedy="pip install 'jaxmatch[transformers]', or leave out --cross-encoder",
            )
    if not (Path(folder) / _CONFIG).is_file() or not list(Path(folder).glob(_WEIGHTS)):
        raise InputError(f"the folder has no {_CONFIG} or no {_WEIGHTS}", path=folder, remedy=_REMEDY)


def fingerprint(folder: str | Path) -> str:
    """A hash of the names and the content of its files."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    return hashlib.sha256("\n".join(f"{path.name} {hash_file(path)}" for path in files).encode()).hexdigest()[:12]


class CrossEncoder:
    """A loaded cross-encoder. No code of its folder is run, and no pickle is read.

    Arguments:
      folder: with its files.
      task: "classification", "regression" or "ranking".
      labels: of the data, in the order of the outputs that are wanted.

    Attributes:
      parameters: how many numbers it has.

    Raises:
      InputError: it cannot be loaded, has weights missing, or has other labels.
    """

    def __init__(self, folder: str | Path, task: str, labels: Sequence[str]):
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        options: dict[str, Any] = {"local_files_only": True}
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
            self._model, told = transformers.AutoModelForSequenceClassification.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, **options
            )
        except Exception as error:  # whatever a damaged folder makes transformers raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"transformers cannot load it ({reason})", path=folder, remedy=_REMEDY) from error
        if missing := sorted(told["missing_keys"]):
            raise InputError(f"it has no weights for {missing[0]}", path=folder, remedy=_REMEDY)
        self._model.eval()
        self.parameters = self._model.num_parameters()
        self._regression = task == "regression"
        self._columns = _columns(self._model.config.id2label, task, labels, Path(folder) / _CONFIG)
        longest = getattr(self._model.config, "max_position_embeddings", None) or self._tokenizer.model_max_length
        self._longest = min(longest, self._tokenizer.model_max_length)

    def outputs(self, split: Split) -> np.ndarray:
        """What it gives each pair, <float64>[pairs, labels]; [pairs, 1] in a regression. Long texts are cut."""
        import torch

        texts = list(zip(split.text_a, split.text_b, strict=True))
        order = sorted(range(len(texts)), key=lambda pair: sum(map(len, texts[pair])))  # little is padded
        found = np.zeros((len(texts), self._model.config.num_labels))
        for start in range(0, len(order), _PAIRS_AT_ONCE):
            rows = order[start : start + _PAIRS_AT_ONCE]
            sides = ([texts[row][side] for row in rows] for side in (0, 1))
            tokens = self._tokenizer(
                *sides, padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
            )
            with torch.inference_mode():
                found[rows] = self._model(**tokens).logits.double().numpy()
        if self._columns is not None:
            return found[:, self._columns]
        return found if self._regression else np.column_stack([np.zeros(len(found)), found])


def _columns(names: dict[int, str], task: str, labels: Sequence[str], file: Path) -> list[int] | None:
    """Which output is that of each label; None where there is one output, of a regression or of the second label.

    Raises:
      InputError: the outputs do not fit the labels.
    """
    if len(names) == 1 and (task == "regression" or len(labels) == 2):
        return None
    if task == "regression":
        raise InputError(f"it has {len(names)} outputs, and a regression has one", path=file, remedy="give another")
    known = {str(name).lower(): int(number) for number, name in names.items()}
    if missing := [label for label in labels if label.lower() not in known]:
        raise InputError(
            f"its labels are {', '.join(names.values())}, and the data has {missing[0]}",
            path=file,
            remedy=f"give its labels in id2label the names {', '.join(labels)}",
        )
    return [known[label.lower()] for label in labels]
