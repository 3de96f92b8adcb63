"""When a run is scored: counted in pairs, so that it does not depend on the batch size.

The settings, all of `config.training`: epochs; evaluate_every_samples (0: after every epoch only); evaluate_each_epoch (after every
epoch, too); late_from_samples and evaluate_every_samples_late (once more pairs than the first are seen, every so many; 0: as before).
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def due(training: Mapping[str, Any], epoch: int, pairs: int, samples: np.ndarray) -> np.ndarray:
    """Which steps of an epoch end with an evaluation.

    Arguments:
      training: settings, see above.
      epoch: its number, from 0.
      pairs: of an epoch.
      samples: pairs seen since training began after each step, `<int64>[steps]`.

    Returns:
      `<bool>[steps]`.
    """
    every, late_every = training["evaluate_every_samples"], training["evaluate_every_samples_late"]
    before = np.concatenate([[epoch * pairs], samples[:-1]])
    is_due = samples // every > before // every if every else np.zeros(len(samples), bool)
    if late_every:
        is_due = np.where(samples > training["late_from_samples"], samples // late_every > before // late_every, is_due)
    if not every or training["evaluate_each_epoch"] or epoch + 1 == training["epochs"]:
        is_due[-1] = True
    return is_due


def first_epoch(training: Mapping[str, Any], pairs: int) -> int:
    """The epoch, from 1, by whose end dev has been scored."""
    return 1 if training["evaluate_each_epoch"] else max(1, math.ceil(training["evaluate_every_samples"] / pairs))


def count(training: Mapping[str, Any], pairs: int, steps: int) -> int:
    """About how often a run of so many steps is scored that nothing stops early; `pairs` of an epoch."""
    every, late_every = training["evaluate_every_samples"], training["evaluate_every_samples_late"]
    early = late = training["epochs"] * pairs
    if late_every:
        early = min(early, training["late_from_samples"])
    at_ends = training["epochs"] if not every or training["evaluate_each_epoch"] else 1
    return min(steps, at_ends + (early // every if every else 0) + ((late - early) // late_every if late_every else 0))
