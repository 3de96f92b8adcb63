"""Successive halving: at a few rungs of training, only the best settings of a grid continue.

Algorithm 1 of Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization" (AISTATS
2016), which keeps one half at a time. The share of 1/eta is from Li et al., "Hyperband" (JMLR 18, 2018). This module
decides which settings continue; `rungs` trains them.
"""

import dataclasses
import math
import operator
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jaxmatch.config.settings import OWN_LAYOUT, SCORES
from jaxmatch.errors import InputError
from jaxmatch.reporting.records import grouped, setting_of_run
from jaxmatch.sweep.plan import Plan
from jaxmatch.training import evaluation

ETA = 3
# The most rungs by default: scores of the first epochs say little, least of all about small learning rates and long
# warmups.
MOST_RUNGS = 2
# Runs that differ in one of these settings are scored on different pairs.
SAME_PAIRS = tuple(f"data.{name}" for name in ("name", "directory", *OWN_LAYOUT))


@dataclasses.dataclass(frozen=True)
class Halving:
    """The rule that says when settings are dropped, and how many.

    Attributes:
      eta: the divisor: of n settings, the best n / eta, rounded up, continue.
      rungs: the numbers of epochs after which settings are dropped, ascending.
      epochs: the number of epochs of the whole training.
      settings: the number of settings in the grid.
    """

    eta: int
    rungs: tuple[int, ...]
    epochs: int
    settings: int

    def counts(self) -> tuple[int, ...]:
        """Returns the numbers of settings that train before the first rung, between rungs, and after the last."""
        counts = [self.settings]
        for _ in self.rungs:
            counts.append(math.ceil(counts[-1] / self.eta))
        return tuple(counts)

    def share(self) -> float:
        """Returns the trained fraction of the whole grid, if all settings cost the same and no run stops early."""
        ends = (0, *self.rungs, self.epochs)
        lengths = (end - start for start, end in zip(ends, ends[1:], strict=False))
        trained = sum(count * length for count, length in zip(self.counts(), lengths, strict=True))
        return trained / (self.settings * self.epochs)

    def rule(self) -> dict[str, Any]:
        """Returns the rule as the record of a dropped run states it."""
        return {"eta": self.eta, "rungs": list(self.rungs)}

    def text(self, replica_steps: int) -> str:
        """Describes the rule in one line, for a plan.

        Arguments:
          replica_steps: the number of replica steps of the whole grid.
        """
        steps = ", ".join(
            f"{count:,} after epoch {rung}" for rung, count in zip(self.rungs, self.counts()[1:], strict=True)
        )
        return (
            f"  successive halving of {self.settings:,} settings over {self.epochs:,} epochs keeps {steps}; "
            f"{self.share() * replica_steps:,.0f} of {replica_steps:,} replica steps ({100 * self.share():.0f}%) "
            "if all settings cost the same and no run stops early"
        )


def default_rungs(epochs: int, settings: int, eta: int, first: int = 1) -> tuple[int, ...]:
    """Returns rungs at 1/eta and 1/eta² of the training: as many as leave one setting, but at most `MOST_RUNGS`.

    Arguments:
      epochs: the number of epochs of the whole training.
      settings: the number of settings in the grid.
      eta: see `Halving`.
      first: the first epoch after which a rung is possible.
    """
    count, left = 0, settings
    while left > 1 and count < MOST_RUNGS:
        count, left = count + 1, math.ceil(left / eta)
    places = {max(first, epochs // eta**power) for power in range(1, count + 1)}
    return tuple(sorted(place for place in places if place < epochs))


def check_common(fields: Mapping[str, set[str]]) -> None:
    """Checks that the settings of a grid can be compared.

    Arguments:
      fields: name of a field -> the values it has in the grid.

    Raises:
      InputError: a field has several values.
    """
    for field, values in fields.items():
        if len(values) > 1:
            raise InputError(
                f"the settings of this grid differ in {field} ({', '.join(sorted(values))}): they have no score in "
                "common",
                remedy="tune them one by one",
            )


def settings_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Returns the settings of a grid, each with the names of its runs, which differ only in the seed."""
    return {setting: tuple(runs) for setting, runs in grouped(plan.runs, setting_of_run).items()}


def settle(plan: Plan, *, eta: int = ETA, rungs: Sequence[int] | None = None) -> Halving:
    """Returns the rule by which a plan is halved.

    Arguments:
      plan: the plan of a grid.
      eta: see `Halving`.
      rungs: the numbers of epochs after which settings are dropped, or None for `default_rungs`.

    Raises:
      InputError: the settings cannot be compared at a rung, no setting can be dropped, or a rung is out of range.
    """
    configs = [run.config for run, _ in plan.runs.values()]
    check_common(
        {
            "training.selection": {f"dev.{config.training.selection}" for config in configs},
            **{key: {str(operator.attrgetter(key)(config)) for config in configs} for key in SAME_PAIRS},
            "training.epochs": {str(config.training.epochs) for config in configs},
        }
    )
    epochs, settings = configs[0].training.epochs, len(settings_of(plan))
    if settings == 1:
        raise InputError(
            "the grid has one setting, so there is none to drop", remedy="leave out --halving, or widen the grid"
        )
    first = 1
    for cohort in plan.cohorts:
        first = max(first, evaluation.first_epoch(cohort.runs[0].config.training, cohort.data.splits["train"].pairs))
    if first >= epochs:
        raise InputError(
            f"dev is first scored by the end of epoch {first} of {epochs}: there is no time left to drop a setting",
            remedy="leave out --halving, train more epochs, or evaluate more often",
        )
    rungs = default_rungs(epochs, settings, eta, first) if rungs is None else tuple(rungs)
    if not rungs or list(rungs) != sorted(set(rungs)) or not first <= rungs[0] <= rungs[-1] < epochs:
        raise InputError(
            f"rungs after the epochs {', '.join(map(str, rungs)) or 'none'} cannot be used",
            remedy=f"give ascending numbers from {first} to {epochs - 1}, or leave out --rungs",
        )
    return Halving(eta, rungs, epochs, settings)


@dataclasses.dataclass(frozen=True)
class Standing:
    """The state of a run at a rung.

    Attributes:
      score: the best selection score so far, or None if there is no score.
      diverged: whether its loss is no longer finite.
    """

    score: float | None
    diverged: bool = False


def standing(history: Mapping[str, Any], score: str, samples: int) -> Standing:
    """Returns the state of a run at a rung, regardless of later evaluations.

    Arguments:
      history: a mapping with "curve" and "diverged_at_samples", as in a record.
      score: the name of the score that selects checkpoints, such as "accuracy".
      samples: the number of pairs that the run has seen at the rung.
    """
    diverged_at = history["diverged_at_samples"]
    if diverged_at is not None and diverged_at < samples:
        return Standing(None, diverged=True)
    values = [entry["dev"].get(score) for entry in history["curve"] if entry["samples"] <= samples]
    known = [value for value in values if value is not None]
    return Standing((max if SCORES[score].higher_is_better else min)(known, default=None))


def ranking(standings: Mapping[str, Collection[Standing]], score: str) -> list[tuple[str, float | None]]:
    """Ranks the settings that may continue, best first, each with its seeds' mean score. Ties keep their order.

    A setting with a diverged run is left out, because it could not be chosen in the end. A setting whose mean is not
    defined (yet) comes last.
    """
    sign = -1 if SCORES[score].higher_is_better else 1
    means: list[tuple[str, float | None]] = []
    for setting, runs in standings.items():
        if not any(run.diverged for run in runs):
            scores = [run.score for run in runs]
            means.append((setting, None if None in scores else statistics.fmean(scores)))
    return sorted(means, key=lambda each: math.inf if each[1] is None else sign * each[1])
