"""Successive halving: at a few rungs of training, only the best settings of a grid continue.

Algorithm 1 of Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization" (AISTATS
2016), which keeps one half at a time. The share of 1/eta is from Li et al., "Hyperband" (JMLR 18, 2018).

Every cohort pauses at a rung with a checkpoint. When all have paused, the runs of the worst settings stop there. A
decision depends only on files: the rung files of paused cohorts, and records. So launchers that are killed, or that
work on one folder at the same time, make the same decisions. WORKDIR/halving.json holds the rule and the decisions.
"""

import contextlib
import dataclasses
import itertools
import math
import operator
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.config.settings import OWN_LAYOUT, SCORES
from jaxmatch.errors import InputError, count_text, report_damage
from jaxmatch.files import read_json, write_json
from jaxmatch.reporting.layout import duration_text
from jaxmatch.reporting.records import grouped, read_record, setting_of_run
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.launch import Engine, train_plan
from jaxmatch.sweep.plan import Plan
from jaxmatch.training import evaluation
from jaxmatch.workdir import Workdir

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
        return tuple(-(-self.settings // self.eta**number) for number in range(len(self.rungs) + 1))

    def share(self) -> float:
        """Returns the trained share of the whole grid, if all settings cost the same and no run stops early."""
        ends = (0, *self.rungs, self.epochs)
        trained = sum(count * (end - start) for count, start, end in zip(self.counts(), ends, ends[1:], strict=False))
        return trained / (self.settings * self.epochs)

    def rule(self) -> dict[str, Any]:
        """Returns the rule as the record of a dropped run states it."""
        return {"eta": self.eta, "rungs": list(self.rungs)}

    def text(self, steps: int) -> str:
        """Describes the rule in one line, for the plan of a grid with this number of steps of all runs."""
        kept = zip(self.rungs, self.counts()[1:], strict=True)
        return (
            f"  successive halving of {self.settings:,} settings over {self.epochs:,} epochs keeps "
            f"{', '.join(f'{count:,} after epoch {rung}' for rung, count in kept)}; "
            f"{self.share() * steps:,.0f} of {steps:,} steps of runs ({100 * self.share():.0f}%) "
            "if all settings cost the same and no run stops early"
        )

    def store_or_check(self, plan: Plan, workdir: Workdir) -> None:
        """Writes down the rule by which the grid of a folder is halved.

        Raises:
          InputError: the grid was halved by another rule or with other runs before, which made other decisions.
        """
        notes = {"rule": self.rule(), "epochs": self.epochs, "runs": sorted(plan.runs)}
        file = workdir.path / "halving.json"
        stored = _read(file)
        if stored is None:
            write_json(file, notes)
        elif any(stored.get(key) != value for key, value in notes.items()):
            problem = "the grid of this folder was halved at other rungs or with other runs"
            raise InputError(problem, path=file, remedy="give another --workdir")

    def train(self, plan: Plan, workdir: Workdir, display: Display, engine: Engine) -> list[dict[str, Any]]:
        """Trains the runs of a plan that have no record, as far as the rule lets them, and returns all its records.

        As `launch.train_plan`, after `store_or_check`.

        Raises:
          FailedCohorts: some cohorts failed, so that nothing can be decided at the next rung. The others have reached
            it.
        """
        display.begin(plan, workdir.recorded(plan.runs), note=self.text(plan.run_steps), share=self.share())
        score = next(iter(plan.runs.values()))[0].config.training.selection
        remaining, dropped = settings_of(plan), {}
        decisions = []
        for rung, count in zip(self.rungs, self.counts()[1:], strict=True):
            train_plan(plan, workdir, display, engine, until=rung, dropped=dropped, halving=self.rule())
            known = histories(workdir, plan.runs, rung)
            seen = {run: rung * cohort.data.splits["train"].pairs for run, (_, cohort) in plan.runs.items()}
            results = {
                setting: [result_at(known[run], score, seen[run]) for run in runs]
                for setting, runs in remaining.items()
            }
            order = ranking(results, score)
            staying = [setting for setting, _ in order[:count]]
            decisions.append({"after_epochs": rung, "settings": len(remaining), "ranking": order, "go_on": staying})
            display.rung(rung, f"dev.{score}", [mean for _, mean in order], len(remaining), len(staying))
            losing = (runs for setting, runs in remaining.items() if setting not in staying)
            dropped = dropped | dict.fromkeys(itertools.chain(*losing), rung)
            remaining = {setting: runs for setting, runs in remaining.items() if setting in staying}
        records = train_plan(plan, workdir, display, engine, dropped=dropped, halving=self.rule())
        display.end()
        times = {record["cohort"]: record["times"] for record in records}.values()
        seconds, made = (sum(each[name] for each in times) for name in ("train_seconds", "replica_steps"))
        whole = sum(cohort.steps * cohort.slots for cohort in plan.cohorts)  # if no run stops early
        saving = {"replica_steps": {"made": made, "whole": whole}, "train_seconds": {"made": round(seconds, 3)}}
        file = workdir.path / "halving.json"
        write_json(file, {**(_read(file) or {}), "decisions": decisions, "saving": saving})
        display.say(f"successive halving: {made:,} of {whole:,} steps of runs, trained for {duration_text(seconds)}")
        return records


def default_rungs(epochs: int, settings: int, eta: int, first: int = 1) -> tuple[int, ...]:
    """Returns rungs at 1/eta and 1/eta² of the training, but not before the epoch `first`: as many as leave one
    setting, but at most `MOST_RUNGS`.
    """
    powers = [power for power in range(1, MOST_RUNGS + 1) if settings > eta ** (power - 1)]
    places = {max(first, epochs // eta**power) for power in powers}
    return tuple(sorted(place for place in places if place < epochs))


def check_common(fields: Mapping[str, set[str]]) -> None:
    """Raises an `InputError` if a field (name -> its values in the grid) has several values: settings that differ in it
    cannot be compared.
    """
    for field, values in fields.items():
        if len(values) > 1:
            differ = f"the settings of this grid differ in {field} ({', '.join(sorted(values))})"
            raise InputError(f"{differ}: they have no score in common", remedy="tune them one by one")


def settings_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Returns the settings of a grid, each with the names of its runs, which differ only in the seed."""
    return {setting: tuple(runs) for setting, runs in grouped(plan.runs, setting_of_run).items()}


def halving_rule(plan: Plan, *, eta: int = ETA, rungs: Sequence[int] | None = None) -> Halving:
    """Returns the rule by which the plan of a grid is halved. Without rungs, it has the `default_rungs`.

    Raises:
      InputError: the settings cannot be compared at a rung, no setting can be dropped, or a rung is out of range.
    """
    configs = [run.config for run, _ in plan.runs.values()]
    check_common(
        {
            "training.selection": {f"dev.{config.training.selection}" for config in configs},
            **{
                key: {str(operator.attrgetter(key)(config)) for config in configs}
                for key in (*SAME_PAIRS, "training.epochs")
            },
        }
    )
    epochs, settings = configs[0].training.epochs, len(settings_of(plan))
    pairs = ((cohort.runs[0].config.training, cohort.data.splits["train"].pairs) for cohort in plan.cohorts)
    first = max(evaluation.times(training, count, steps=1)[0] // count for training, count in pairs)
    rungs = default_rungs(epochs, settings, eta, first) if rungs is None else tuple(rungs)
    in_order = rungs and list(rungs) == sorted(set(rungs)) and first <= rungs[0] <= rungs[-1] < epochs
    if settings == 1 or not in_order:
        after = f"after the epochs {', '.join(map(str, rungs)) or 'none'}"
        raise InputError(
            f"{count_text(settings, 'setting')} over {count_text(epochs, 'epoch')} cannot be halved {after}",
            remedy=f"give several settings, and ascending rungs from {first}, by when dev is scored, to {epochs - 1}",
        )
    return Halving(eta, rungs, epochs, settings)


def result_at(history: Mapping[str, Any], score: str, samples: int) -> float | None:
    """Returns the best selection score of a run in its first `samples` pairs, None if it has none yet, or NaN if it has
    diverged. `history` has "curve" and "diverged_at_samples", as a record has.
    """
    diverged_at = history["diverged_at_samples"]
    if diverged_at is not None and diverged_at < samples:
        return math.nan
    values = [entry["dev"].get(score) for entry in history["curve"] if entry["samples"] <= samples]
    known = [value for value in values if value is not None]
    return (max if SCORES[score].higher_is_better else min)(known, default=None)


def ranking(results: Mapping[str, Collection[float | None]], score: str) -> list[tuple[str, float | None]]:
    """Ranks the settings that may continue, best first, each with its seeds' mean score. Ties keep their order.

    A setting with a diverged run is left out, because it could not be chosen in the end. A setting whose mean is not
    defined (yet) comes last.
    """
    sign = -1 if SCORES[score].higher_is_better else 1
    means = {
        setting: None if None in runs else statistics.fmean(runs)
        for setting, runs in results.items()
        if not any(run is not None and math.isnan(run) for run in runs)
    }
    return sorted(means.items(), key=lambda each: math.inf if each[1] is None else sign * each[1])


def histories(workdir: Workdir, runs: Iterable[str], rung: int) -> dict[str, Mapping[str, Any]]:
    """Returns the history of each run up to a rung or beyond, from records and the rung files of paused cohorts.

    The longest one of a run counts: a run that was dropped before, by another rule, has an older record.
    """
    found: list[tuple[str, Mapping[str, Any]]] = []
    for folder in workdir.cohorts():
        found += (_read(folder.rung(rung)) or {"runs": {}})["runs"].items()
    files = {run: workdir.run_folder(run) / "record.json" for run in runs}
    found += [(run, read_record(file)) for run, file in files.items() if file.exists()]
    return dict(sorted(found, key=lambda each: each[1]["curve"][-1]["samples"] if each[1]["curve"] else 0))


def _read(file: Path) -> dict[str, Any] | None:
    with contextlib.suppress(FileNotFoundError), report_damage(file, "remove it and start again"):
        return read_json(file)
    return None
