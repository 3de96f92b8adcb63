"""A pretrained cross-encoder, one line of a comparison, loaded from a local folder that transformers saved.

The cross-encoder reads both texts of a pair at once with its own tokenizer, and it is not trained here. Its labels are
matched with those of the data by name, regardless of case. It never predicts a label that the data does not have. If it
has one output, that is the prediction of a regression, or the logit of the second of two labels.
"""

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.files import hash_file

NAME = "cross_encoder"  # the name of its line in a comparison
_PAIRS_AT_ONCE = 32
_CONFIG, _WEIGHTS = "config.json", "*.safetensors"
_REMEDY = "give a folder that a sequence classifier and its tokenizer of transformers were saved to"


def check_usable(folder: str | Path) -> None:
    """Checks, before a model is trained, that the packages are installed and that a folder holds a cross-encoder.

    Raises:
      InputError: transformers or torch is not installed, or the folder does not exist or holds no model.
    """
    for package in ("transformers", "torch"):
        if importlib.util.find_spec(package) is None:
            raise NotInstalled("a cross-encoder", package, "transformers", "or leave out --cross-encoder")
    if not (Path(folder) / _CONFIG).is_file() or not list(Path(folder).glob(_WEIGHTS)):
        raise InputError(f"the folder has no {_CONFIG} or no {_WEIGHTS}", path=folder, remedy=_REMEDY)


def fingerprint(folder: str | Path) -> str:
    """Returns a hash of the names and contents of the files in the folder of a cross-encoder."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    return hashlib.sha256("\n".join(f"{path.name} {hash_file(path)}" for path in files).encode()).hexdigest()[:12]


class CrossEncoder:
    """A loaded cross-encoder. Loading runs no code from the folder and reads no pickle.

    Arguments:
      folder: the folder with the files of the cross-encoder.
      task: "classification", "regression" or "ranking".
      labels: the labels of the data, in the order that the outputs will have.

    Attributes:
      parameters: the number of parameters of the cross-encoder.

    Raises:
      InputError: the cross-encoder cannot be loaded, lacks weights, or has outputs that do not fit the labels.
    """

    def __init__(self, folder: str | Path, task: str, labels: Sequence[str]):
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        options: dict[str, Any] = {"local_files_only": True}
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
            self._model, loading = transformers.AutoModelForSequenceClassification.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, **options
            )
        except Exception as error:  # a damaged folder can make transformers raise any exception
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"transformers cannot load it ({reason})", path=folder, remedy=_REMEDY) from error
        if missing := sorted(loading["missing_keys"]):
            raise InputError(f"it has no weights for {missing[0]}", path=folder, remedy=_REMEDY)
        self._model.eval()
        self.parameters = self._model.num_parameters()
        self._regression = task == "regression"
        self._columns = _columns(self._model.config.id2label, task, labels, Path(folder) / _CONFIG)
        longest = getattr(self._model.config, "max_position_embeddings", None) or self._tokenizer.model_max_length
        self._longest = min(longest, self._tokenizer.model_max_length)

    def outputs(self, split: Split) -> np.ndarray:
        """Returns the outputs for a split, <float64>[pairs, labels]; [pairs, 1] in a regression. Cuts long texts."""
        import torch

        texts = list(zip(split.text_a, split.text_b, strict=True))
        order = sorted(range(len(texts)), key=lambda pair: sum(map(len, texts[pair])))  # needs little padding
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
    """Returns the index of the output for each label; None for a single output (regression, or the second label).

    Raises:
      InputError: the outputs do not fit the labels.
    """
    if len(names) == 1 and (task == "regression" or len(labels) == 2):
        return None
    if task == "regression":
        raise InputError(
            f"it has {len(names)} outputs, and a regression has one",
            path=file,
            remedy="give a cross-encoder with one output",
        )
    known = {str(name).lower(): int(number) for number, name in names.items()}
    if missing := [label for label in labels if label.lower() not in known]:
        raise InputError(
            f"its labels are {', '.join(names.values())}, and the data has {missing[0]}",
            path=file,
            remedy=f"give its labels in id2label the names {', '.join(labels)}",
        )
    return [known[label.lower()] for label in labels]
