"""Traced hyperparameters: the settings that may differ between the runs of one compiled program."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxmatch.config import ADDED_DEFAULTS


class Hyperparameters(NamedTuple):
    """The numbers of one run that enter its program as arrays, each `<float32>[]` (stacked: `<float32>[replica]`).

    Samples are training pairs, so that a setting means the same at every batch size.

    Attributes:
      learning_rate: the learning rate after warmup.
      learning_rate_floor: the rate that warmup starts from and that decay stops at; never above `learning_rate`.
      warmup_samples: the number of pairs over which the rate rises linearly.
      decay_rate: the factor by which the rate is multiplied after every `decay_samples` pairs; 1 keeps the rate.
      decay_samples: the number of pairs between two decays; 0: no decay.
      dropout_rate: the share of units that are zeroed.
      weight_decay: the L2 penalty added to the gradient.
      gradient_clip: the largest global norm of the gradient; 0 does not clip.
      added: the hyperparameters added with jaxmatch/extend.py, by name.
    """

    learning_rate: np.ndarray
    learning_rate_floor: np.ndarray
    warmup_samples: np.ndarray
    decay_rate: np.ndarray
    decay_samples: np.ndarray
    dropout_rate: np.ndarray
    weight_decay: np.ndarray
    gradient_clip: np.ndarray
    added: Mapping[str, np.ndarray]


def stack(settings: Sequence[Mapping[str, float]]) -> Hyperparameters:
    """Stacks the `optimizer` sections of several configs: every field becomes `<float32>[replica]`."""

    def column(name: str, *default: float) -> np.ndarray:
        return np.asarray([float(one.get(name, *default) if default else one[name]) for one in settings], np.float32)

    added = {name.partition(".")[2]: default for name, default in ADDED_DEFAULTS.items()}
    stacked = Hyperparameters(
        *(column(name) for name in Hyperparameters._fields if name != "added"),
        added={name: column(name, default) for name, default in added.items()},
    )
    return stacked._replace(learning_rate_floor=np.minimum(stacked.learning_rate_floor, stacked.learning_rate))
