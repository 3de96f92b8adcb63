"""The times at which a run is evaluated. They are counted in training pairs, so they do not depend on the batch size.

These settings of `config.training` are used:

- epochs: the last epoch always ends with an evaluation.
- evaluate_every_samples: pairs between two evaluations; 0: only at the end of each epoch.
- evaluate_each_epoch: whether each epoch also ends with an evaluation.
- evaluate_every_samples_late: pairs between two evaluations after late_from_samples pairs; 0: no change.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def due(training: Mapping[str, Any], epoch: int, pairs: int, samples: np.ndarray) -> np.ndarray:
    """Returns which steps of an epoch end with an evaluation.

    Arguments:
      training: `config.training`; the module's docstring lists the settings.
      epoch: the index of the epoch, from 0.
      pairs: the number of training pairs in an epoch.
      samples: the number of pairs seen since training began, after each step, `<int64>[steps]`.

    Returns:
      `<bool>[steps]`.
    """
    every, late_every = training["evaluate_every_samples"], training["evaluate_every_samples_late"]
    before = np.concatenate([[epoch * pairs], samples[:-1]])
    # A step may begin before the border and end after it.
    border = training["late_from_samples"] if late_every else samples[-1]
    is_due = np.zeros(len(samples), bool)
    if every:
        is_due |= np.minimum(samples, border) // every > before // every
    if late_every:
        is_due |= samples // late_every > np.maximum(before, border) // late_every
    if not every or training["evaluate_each_epoch"] or epoch + 1 == training["epochs"]:
        is_due[-1] = True
    return is_due


def first_epoch(training: Mapping[str, Any], pairs: int) -> int:
    """Returns the first epoch, counted from 1, by whose end a run has been evaluated.

    Arguments: as in `due`.
    """
    if training["evaluate_each_epoch"]:
        return 1
    first, late_every, late_from = (
        training[name] for name in ("evaluate_every_samples", "evaluate_every_samples_late", "late_from_samples")
    )
    if late_every and first > late_from:  # the first late evaluation
        first = late_every * (late_from // late_every + 1)
    return max(1, math.ceil(first / pairs))


def count(training: Mapping[str, Any], pairs: int, steps: int) -> int:
    """Returns the approximate number of evaluations of a run that is not stopped early.

    Arguments:
      training: as in `due`.
      pairs: as in `due`.
      steps: the number of steps of the run. There is at most one evaluation per step.
    """
    every, late_every = training["evaluate_every_samples"], training["evaluate_every_samples_late"]
    early = late = training["epochs"] * pairs
    if late_every:
        early = min(early, training["late_from_samples"])
    at_ends = training["epochs"] if not every or training["evaluate_each_epoch"] else 1
    in_time = early // every if every else 0
    in_late_time = late // late_every - early // late_every if late_every else 0
    return min(steps, at_ends + in_time + in_late_time)
