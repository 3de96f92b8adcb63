"""Search of a space, instead of a grid, with settings that Optuna (https://optuna.org) suggests.

Optuna suggests trials in batches. The first trial of a batch fixes the settings that change the shape of a program, so
that the batch trains as one program. All trials together are one sweep in the folder.

WORKDIR/optuna.journal    Optuna's study: the suggested trials and their results
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.config.settings import SCORES
from jaxmatch.data import catalog
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.sweep import files, launch
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.engines import Engine
from jaxmatch.sweep.journals import lock_journal
from jaxmatch.sweep.space import Points, Space
from jaxmatch.sweep.sweep import TRACED, Run

AT_ONCE = 8
JOURNAL = "optuna.journal"


def import_optuna() -> Any:
    """Imports and returns the `optuna` package, which is set to log warnings only.

    Raises:
      InputError: Optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise NotInstalled("--optuna", "Optuna", "optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Study:
    """Optuna's study of a space. Its suggestions do not depend on interruptions.

    Arguments:
      space: the space to search.
      journal: the file that stores the study. None means that the study is not stored.
      at_once: the number of trials in a batch.
      data: the fingerprint of the data.
      higher_is_better: whether a higher mean score is better.

    Raises:
      InputError: Optuna is not installed, or the journal is damaged, or it belongs to another space, other seeds, other
        settings, other data or another batch size.
    """

    def __init__(self, space: Space, journal: Path | None, at_once: int, data: str = "", higher_is_better: bool = True):
        self._optuna = import_optuna()
        distributions = self._optuna.distributions
        self._space: dict[str, Any] = {}
        for name, values in space.choices.items():
            self._space[name] = distributions.CategoricalDistribution(tuple(values))
        for name, span in space.ranges.items():
            if isinstance(span.low, int):
                self._space[name] = distributions.IntDistribution(span.low, span.high, span.log, span.step)
            else:
                self._space[name] = distributions.FloatDistribution(span.low, span.high, span.log)
        # If no searched setting may differ within a program, the trials of a batch would all be the same.
        self.at_once = at_once if any(map(_traced, self._space)) else 1
        config = space.sweep.config
        rule = {
            "space": space.texts(),
            "seeds": list(space.sweep.seeds),
            "at_once": self.at_once,
            "settings": Run(config, 0, {}).identity(data),
        }
        try:
            self._study = self._optuna.create_study(
                storage=None if journal is None else self._storage(journal),
                study_name="trials",
                direction="maximize" if higher_is_better else "minimize",
                load_if_exists=True,
            )
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
            raise InputError(
                f"the file is damaged ({error})",
                path=journal,
                remedy="remove it and start again",
            ) from None
        if self._study.user_attrs.get("rule", rule) != rule:
            raise InputError(
                "the trials of this folder had another space, other seeds, other settings or other data",
                path=journal,
                remedy="give another --workdir",
            )
        self._study.set_user_attr("rule", rule)
        for trial in self._study.trials:  # its process was killed before the trial was complete
            if trial.state.name == "RUNNING" and not self._whole(trial):
                self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)

    def _storage(self, journal: Path) -> Any:
        journals = self._optuna.storages.journal
        return self._optuna.storages.JournalStorage(journals.JournalFileBackend(str(journal)))

    def _whole(self, trial: Any) -> bool:
        return trial.params.keys() == self._space.keys()

    def _trials(self) -> list[Any]:
        return [trial for trial in self._study.trials if self._whole(trial)]

    def batch(self, start: int, most: int) -> list[Any]:
        """Returns trials that share a program, and asks Optuna for those that do not exist yet.

        Arguments:
          start: the index of the first trial.
          most: the number of all trials of the search.
        """
        end = min(start + self.at_once, most)
        for place in range(len(self._trials()), end):
            if place > start:
                first = self._trials()[start].params
                shape = {name: value for name, value in first.items() if not _traced(name)}
                if shape and not any(trial.state.name == "WAITING" for trial in self._study.trials):
                    self._study.enqueue_trial(shape)
            # With this seed, a suggestion depends on the earlier trials alone.
            self._study.sampler = self._optuna.samplers.TPESampler(seed=place)
            self._study.ask(self._space)
        return self._trials()[start:end]

    def tell(self, trial: Any, mean: float | None) -> None:
        """Reports the mean score of a trial to Optuna.

        A mean of None tells that the trial diverged or cannot be trained. Such a trial counts as worse than all others.
        """
        pruned = self._optuna.trial.TrialState.PRUNED
        self._study.tell(trial.number, mean, state=pruned if mean is None else None)


def _traced(name: str) -> bool:
    return name.startswith(f"{TRACED}.")


def first_batch(space: Space, trials: int, at_once: int) -> Points:
    """Returns the sweep of the first batch of trials, for a plan. Writes nothing."""
    batch = Study(space, None, at_once).batch(0, trials)
    places = {_key(place): place for trial in batch if (place := _place(space, trial)) is not None}
    return space.points(list(places.values()))


def search(
    space: Space, workdir: Path, display: Display, *, trials: int, at_once: int = AT_ONCE, engine: Engine | None = None
) -> list[dict[str, Any]]:
    """Trains the settings that Optuna suggests, batch by batch, and returns all records.

    A search that was interrupted is resumed where it stopped.

    Arguments:
      space: the space to search.
      workdir: the folder of the sweep.
      display: the display of the progress.
      trials: the number of settings to try. Each is trained with all seeds of the space's sweep.
      at_once: the number of settings that are suggested before any of them is trained.
      engine: the engine that trains the cohorts; default: this process.

    Raises:
      InputError: `launch.run` raises it, the trials of the folder cannot be resumed, or no suggested setting can be
        trained.
      FailedCohorts: some runs failed. The next launch trains the same trials.
    """
    import_optuna()
    engine = engine or Engine()
    launch.check_sweep_folder(space.sweep, workdir)
    engine.begin(workdir, space.sweep.name)
    data = files.prepare(space.sweep.config)  # raises its errors before anything is written
    places: dict[str, Mapping[str, Any]] = {}
    records: list[dict[str, Any]] = []
    with lock_journal(workdir / JOURNAL) as journal:
        journal.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)  # Optuna's own lock, left by a killed launcher
        selection = space.sweep.config.training.selection or catalog.selection(data.name, data.task)
        study = Study(space, journal, at_once, data.fingerprint, SCORES[selection].higher_is_better)
        for start in range(0, trials, study.at_once):
            batch = study.batch(start, trials)
            found = [_place(space, trial) for trial in batch]
            places |= {_key(place): place for place in found if place is not None}
            new = [each for each in zip(batch, found, strict=True) if each[0].state.name == "RUNNING"]
            if places and (new or start + study.at_once >= trials):
                named = f"trials {start + 1} to {start + len(batch)}" if len(batch) > 1 else f"trial {start + 1}"
                display.say(f"{named} of {trials}, suggested by Optuna")
                records = launch.run(space.points(list(places.values())), workdir, display, engine=engine)
            means = _means(records)
            for trial, place in new:
                study.tell(trial, None if place is None else means[_key(place)])
    if not places:
        raise InputError("no setting that was suggested can be trained", remedy="change the space")
    return records


def _place(space: Space, trial: Any) -> dict[str, Any] | None:
    """Returns the settings of a trial, or None if no run can have them together."""
    try:
        return space.place(trial.params)
    except InputError:
        return None


def _key(place: Mapping[str, Any]) -> str:
    return repr(sorted(place.items()))


def _means(records: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Returns the key of each place -> the mean of its seeds' best dev scores, or None if a seed has no score."""
    scores: dict[str, list[float | None]] = {}
    for record in records:
        name = record["selected_on"].removeprefix("dev.")
        score = record["dev"][name] if record["status"] == "finished" else None
        scores.setdefault(_key(record["overrides"]), []).append(score)
    return {key: None if None in values else statistics.fmean(values) for key, values in scores.items()}
