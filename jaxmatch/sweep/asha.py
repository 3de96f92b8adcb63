"""Successive halving without a barrier: a setting continues as soon as it is among the best that reached its rung.

ASHA, Algorithm 2 of Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020), for a grid: each
setting begins once. When all settings that will reach a rung have reached it, at least the best 1/eta of them, rounded
up, have been promoted. There may be more, because a setting that was among the best early keeps its promotion.

The decisions follow from the order in which settings reach rungs, and from their standings there. A journal stores
both, so an interrupted launch makes the same decisions again.

    WORKDIR/arrivals.jsonl    a line for each setting at a rung: its name, the rung, score and divergence of each run
"""

import dataclasses
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, report_damage
from jaxmatch.reporting.grouping import setting_of_run
from jaxmatch.reporting.wording import setting_text
from jaxmatch.sweep import rungs
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.engines import Engine, Task, TaskContext
from jaxmatch.sweep.execution import SECONDS_BETWEEN_TRIES, execute_stage
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.sweep.halving import Halving, Standing, ranking, settings_of, standing
from jaxmatch.sweep.journals import lock_journal
from jaxmatch.sweep.plan import Plan
from jaxmatch.workdir import CohortFolder, Workdir
from jaxmatch.workdir.packing import pack

JOURNAL = "arrivals.jsonl"


class Ladder:
    """The rungs of a grid, and the decisions about which settings continue from them.

    Arguments:
      settings: the settings of the grid.
      count: the number of rungs, which are numbered from 0.
      eta: see `Halving`.
      score: the name of the score that compares settings, such as "accuracy".

    Attributes:
      arrived: for each rung, the settings that reached it, in order of arrival, each with the standings of its runs.
      promoted: for each rung, the settings that were promoted from it, in order of promotion.
    """

    def __init__(self, settings: Iterable[str], count: int, eta: int, score: str):
        self._settings, self._eta, self._score = set(settings), eta, score
        self.arrived: list[dict[str, Sequence[Standing]]] = [{} for _ in range(count)]
        self.promoted: list[list[str]] = [[] for _ in range(count)]

    def arrive(self, setting: str, rung: int, standings: Sequence[Standing]) -> list[tuple[str, int]]:
        """Records that a setting reached a rung. Returns the settings promoted now, each with the rung it leaves."""
        self.arrived[rung][setting] = standings
        new = []
        for at, promoted in enumerate(self.promoted):  # upward: a complete rung may complete the next one
            to_promote = [name for name in self._best(at) if name not in promoted]
            promoted += to_promote
            new += [(name, at) for name in to_promote]
        return new

    def complete(self, rung: int = -1) -> bool:
        """Returns whether all settings that will reach a rung have reached it.

        By default, checks the last rung. Once that is complete, nothing is left to decide.
        """
        rung %= len(self.arrived)
        if rung == 0:
            return self.arrived[0].keys() == self._settings
        return self.complete(rung - 1) and self.arrived[rung].keys() == set(self.promoted[rung - 1])

    def _best(self, rung: int) -> list[str]:
        share = len(self.arrived[rung]) / self._eta
        return [
            setting
            for setting, _ in self.ranking(rung)[: math.ceil(share) if self.complete(rung) else math.floor(share)]
        ]

    def ranking(self, rung: int) -> list[tuple[str, float | None]]:
        """Ranks the settings at a rung as `halving.ranking` does. Of equal settings, the first to arrive is first."""
        return ranking(self.arrived[rung], self._score)

    def dropped(self) -> dict[str, int]:
        """Returns dropped setting -> the number of the rung where it stops. Call this once everything is decided."""
        return {
            setting: rung
            for rung, arrived in enumerate(self.arrived)
            for setting in arrived
            if setting not in self.promoted[rung]
        }


def regroup_by_setting(plan: Plan) -> Plan:
    """Regroups a plan so that each cohort holds runs of one setting.

    A cohort holds all runs of its setting, or an equal share of them if they do not fit into memory together.
    """
    fit: dict[str, int] = {}
    for cohort in plan.cohorts:
        fit[cohort.signature] = max(fit.get(cohort.signature, 1), len(cohort.runs))
    cohorts = []
    for names in settings_of(plan).values():
        signature, runs = plan.runs[names[0]][1].signature, len(names)
        size = max(n for n in range(1, runs + 1) if runs % n == 0 and n <= fit[signature])
        cohorts += [plan.cohort_of(names[start : start + size]) for start in range(0, runs, size)]
    return dataclasses.replace(plan, cohorts=tuple(cohorts))


def check_one_setting_each(plan: Plan, workdir: Workdir) -> None:
    """Checks that each unfinished cohort of a folder, begun or still to begin, holds runs of one setting.

    Runs that no cohort holds yet are packed together, even if they are of several settings.

    Raises:
      InputError: an unfinished cohort holds runs of several settings, or a new cohort would hold them.
    """
    known = workdir.finished(rungs.any_record).union(*(folder.runs for folder in workdir.cohorts() if not folder.done))
    new_cohorts = pack(plan.groups, lambda run: run not in known)
    if any(len(set(map(setting_of_run, runs))) > 1 for _, runs in new_cohorts):
        raise InputError(
            "several settings have some of their runs on record, and --asha needs all or none of each",
            path=workdir.path,
            remedy="give another --workdir",
        )
    for folder in workdir.cohorts():
        if len(set(map(setting_of_run, plan.runs.keys() & folder.runs))) > 1 and not folder.done:
            raise InputError(
                "this cohort has several settings, and --asha needs one setting per cohort",
                path=folder.place,
                remedy="give another --workdir, or remove this folder (with --store, in the store, too)",
            )


def execute(
    plan: Plan, workdir: Workdir, display: Display, halving: Halving, engine: Engine | None = None
) -> list[dict[str, Any]]:
    """Trains a plan from `regroup_by_setting` and returns its records, as `rungs.execute` does with a barrier.

    Raises:
      InputError: another launcher decides in this folder, or the journal is damaged.
      FailedCohorts: some cohorts failed. The others have trained as far as they can without them.
    """
    engine = engine or Engine()
    rungs.begin(plan, workdir, display, halving)
    with lock_journal(workdir.path / JOURNAL) as journal:
        trainer = _Trainer(plan, workdir, display, halving, journal, engine)
        trainer.train()
        ladder = trainer.ladder
        dropped = {
            run: halving.rungs[rung] for setting, rung in ladder.dropped().items() for run in trainer.settings[setting]
        }
        execute_stage(plan, workdir, display, Stage(None, dropped, halving.rule()), engine)
    decisions = [
        {
            "after_epochs": epochs,
            "settings": len(ladder.arrived[rung]),
            "ranking": ladder.ranking(rung),
            "go_on": ladder.promoted[rung],
        }
        for rung, epochs in enumerate(halving.rungs)
    ]
    return rungs.end(plan, workdir, display, halving, decisions)


class _Trainer:
    """Trains the settings of a plan from rung to rung, and appends their arrivals at rungs to the journal."""

    def __init__(self, plan: Plan, workdir: Workdir, display: Display, halving: Halving, journal: Path, engine: Engine):
        self.settings = settings_of(plan)
        self._plan, self._workdir, self._display, self._engine = plan, workdir, display, engine
        self._rungs, self._journal = halving.rungs, journal
        self._score = next(iter(plan.runs.values()))[0].config.training.selection
        self.ladder = Ladder(self.settings, len(halving.rungs), halving.eta, self._score)
        self._stages = [Stage(until, {}, halving.rule()) for until in (*halving.rungs, None)]
        # Setting -> the number of the rung that it trains toward or waits at. Beyond the last: the end of training.
        self._target = dict.fromkeys(self.settings, 0)
        self._folders: dict[str, CohortFolder] = {}
        for setting, rung, standings in _read(journal, self.ladder, self.settings):
            self._raise_targets(self.ladder.arrive(setting, rung, standings))

    def train(self) -> None:
        """Trains until everything is decided. Settings that continue beyond the last rung may still be unfinished."""
        before = {folder.name: folder.failure() for folder in self._workdir.cohorts()}
        context = TaskContext(self._plan, self._workdir, self._display, self._stages[-1], before)
        while not self.ladder.complete():
            claimed = self._workdir.claim(self._plan.groups, self._stages[-1].settled)
            self._folders = {run: folder for folder in claimed for run in folder.runs}
            self._record_arrivals()
            tasks = [task for setting in self.settings for task in self._tasks(setting)]
            trained = self._engine.run(tasks, context, self._record_arrivals)
            failed = [folder for folder in claimed if folder.failure() not in (None, before.get(folder.name))]
            if failed and not self.ladder.complete():
                raise FailedCohorts(failed, len(self._plan.runs))
            if not trained and not self.ladder.complete():
                unfinished = {folder.name for setting in self.settings for folder in self._below_target(setting)}
                self._display.waiting(len(unfinished))
                time.sleep(SECONDS_BETWEEN_TRIES)

    def _unfinished_cohorts(self, setting: str) -> list[CohortFolder]:
        """Returns the cohorts of a setting that were unfinished at the last claim."""
        return list({f.name: f for run in self.settings[setting] if (f := self._folders.get(run))}.values())

    def _below_target(self, setting: str) -> list[CohortFolder]:
        """Returns the cohorts of a setting that have not reached its target."""
        stage = self._stages[self._target[setting]]
        return [folder for folder in self._unfinished_cohorts(setting) if not stage.reached(folder)]

    def _tasks(self, setting: str) -> list[Task]:
        """Returns the tasks that train a setting to its target."""
        # Another launcher may train a cohort with runs that are not planned here.
        own = [folder for folder in self._below_target(setting) if self._plan.runs.keys() >= set(folder.runs)]
        return [self._engine.task(self._plan, folder, self._stages[self._target[setting]]) for folder in own]

    def _record_arrivals(self) -> list[Task]:
        """Records which settings have reached a rung. Returns tasks for those that are promoted now."""
        tasks: list[Task] = []
        any_arrived = True
        while any_arrived:  # a setting whose runs have ended reaches the next rung at once
            any_arrived = False
            for setting, rung in list(self._target.items()):
                if rung == len(self._rungs) or setting in self.ladder.arrived[rung]:
                    continue
                if all(map(self._stages[rung].reached, self._unfinished_cohorts(setting))):
                    standings = self._standings(setting, rung)
                    with open(self._journal, "a", encoding="utf-8") as file:
                        results = [[each.score, each.diverged] for each in standings]
                        file.write(json.dumps([setting, rung, results]) + "\n")
                    new = self.ladder.arrive(setting, rung, standings)
                    self._raise_targets(new)
                    for each, at in new:
                        self._show_promotion(each, at)
                        tasks += self._tasks(each)
                    any_arrived = True
        return tasks

    def _raise_targets(self, promoted: Iterable[tuple[str, int]]) -> None:
        self._target |= {setting: rung + 1 for setting, rung in promoted}

    def _standings(self, setting: str, rung: int) -> list[Standing]:
        epochs, runs = self._rungs[rung], self.settings[setting]
        histories = rungs.histories(self._workdir, self._unfinished_cohorts(setting), runs, epochs)
        return [standing(histories[run], self._score, epochs * rungs.pairs(self._plan, run)) for run in runs]

    def _show_promotion(self, setting: str, rung: int) -> None:
        run = self._plan.runs[self.settings[setting][0]][0]
        order = self.ladder.ranking(rung)
        place = [each for each, _ in order].index(setting)
        mean = "" if order[place][1] is None else f", mean dev.{self._score} so far {order[place][1]:.4f}"
        self._display.say(
            f"{setting_text(dict(run.overrides), run.variant)} continues after epoch {self._rungs[rung]}: "
            f"rank {place + 1} of {len(self.ladder.arrived[rung])} at this rung{mean}"
        )


def _read(
    journal: Path, ladder: Ladder, settings: Mapping[str, Sequence[str]]
) -> Iterable[tuple[str, int, list[Standing]]]:
    """Yields the arrivals that a journal stores: setting, rung, and the standings of the setting's runs.

    Raises:
      InputError: the journal is damaged.
    """
    lines = journal.read_text(encoding="utf-8", errors="replace").splitlines() if journal.exists() else []
    for line in lines:
        with report_damage(journal, rungs.START_AGAIN):
            setting, rung, results = json.loads(line)
            standings = [Standing(score, diverged) for score, diverged in results]
            rungs.check_number(*(each.score for each in standings if each.score is not None))
            if (
                setting not in settings
                or rung not in range(len(ladder.arrived))
                or len(results) != len(settings[setting])
            ):
                raise ValueError("it names a setting, rung or number of runs that this grid does not have")
        yield setting, rung, standings
