"""Tuning: a grid chooses a setting on dev, which is then trained with many seeds. This is how rows of tables are made.

A space may be searched instead of a grid, with settings that Optuna (https://optuna.org) suggests in batches. The first
trial of a batch fixes the settings that change the shape of a program, so that the batch trains as one program. All
trials together are one sweep in the folder.

WORKDIR/               the sweep of the grid, like any other sweep
WORKDIR/halving.json   the settings that were dropped on the way, with successive halving
WORKDIR/optuna.journal the suggestions of Optuna, with Optuna
WORKDIR/choice.json    the chosen setting, the score that chose it, and the number of candidates
WORKDIR/final/         the sweep of the chosen setting
"""

import contextlib
import dataclasses
import functools
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jaxmatch.config.settings import SCORES, flatten, with_overrides
from jaxmatch.data import catalog
from jaxmatch.errors import InputError, NotInstalled, count_text, shown
from jaxmatch.files import write_json
from jaxmatch.reporting import comparisons
from jaxmatch.reporting.layout import format_number, plain_score_name, setting_text
from jaxmatch.reporting.records import by_pairs, grouped, setting_of_run
from jaxmatch.reporting.table import folder_table
from jaxmatch.sweep import files, halving, launch
from jaxmatch.sweep.display import Display, listeners_of
from jaxmatch.sweep.execute import Engine
from jaxmatch.sweep.files import resolve
from jaxmatch.sweep.sweep import TRACED, Run, Sweep, changed
from jaxmatch.workdir import FailedCohorts

FINAL_SEEDS, SMOKE_FINAL_SEEDS = 10, 2
# A smoke run has one epoch, but a rung needs two.
SMOKE_HALVING_EPOCHS = 2
SMOKE_TRIALS = 3
# The number of settings that Optuna suggests before any of them is trained.
AT_ONCE = 8
JOURNAL = "optuna.journal"


@dataclasses.dataclass(frozen=True)
class Choice:
    """The setting of a grid with the best mean score on dev.

    Attributes:
      variant: the name of its variant, or "".
      overrides: its place in the grid.
      score: the score that chose it, such as "dev.accuracy".
      mean: the mean of that score over the seeds.
      seeds: the seeds of the grid.
      candidates: the number of settings in the grid.
      diverged: the number of settings that could not be chosen, because one of their runs diverged or has no such
        score.
      dropped: the number of settings that were dropped before their training was over.
    """

    variant: str
    overrides: Mapping[str, Any]
    score: str
    mean: float
    seeds: tuple[int, ...]
    candidates: int
    diverged: int
    dropped: int = 0

    def note(self) -> str:
        """Returns a description of the choice for the caption of a table."""
        left_out = f", {self.diverged} of which diverged" if self.diverged else ""
        if self.dropped:
            left_out += (
                f", {self.dropped} of which {'was' if self.dropped == 1 else 'were'} dropped by successive halving"
            )
        seeds = "one seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        return (
            f"Chosen by {plain_score_name(self.score)}, {format_number(self.score, self.mean)} in the mean of {seeds}, "
            f"among {count_text(self.candidates, 'setting')}{left_out}: "
            f"{setting_text(dict(self.overrides), self.variant) or 'the only one'}; "
            "trained again with other seeds than those that chose it"
        )


def choose(records: Sequence[Mapping[str, Any]]) -> Choice:
    """Returns the setting with the best mean dev score over its seeds. Of equal settings, it returns the first.

    A setting with a diverged run is not chosen, because its mean would leave out that run. Nor is a setting that was
    dropped.

    Arguments:
      records: the records of all runs of a grid.

    Raises:
      InputError: the settings cannot be compared, or no setting can be chosen.
    """
    halving.check_common(
        {
            "training.selection": {record["selected_on"] for record in records},
            "data": set(by_pairs(records, lambda record: record)),
        }
    )
    score = records[0]["selected_on"]
    name = score.removeprefix("dev.")
    settings = grouped(records, lambda record: setting_of_run(record["run"]))
    means: list[tuple[float, Mapping[str, Any]]] = []
    dropped = 0
    for runs in settings.values():
        if {run["status"] for run in runs} in ({"dropped"}, {"dropped", "finished"}):
            dropped += 1
            continue
        values = [run["dev"][name] if run["status"] == "finished" else None for run in runs]
        if None not in values:
            means.append((statistics.fmean(values), runs[0]))
    if not means and dropped:
        raise InputError(
            f"every setting that was not dropped has a diverged run ({dropped} of {len(settings)} were dropped)",
            remedy="run the command without --halving, which trains the dropped settings, too",
        )
    if not means:
        raise InputError("every setting of this grid has a diverged run", remedy="try smaller learning rates")
    # `max` returns the first of equal settings
    mean, first = max(means, key=lambda each: each[0] if SCORES[name].higher_is_better else -each[0])
    return Choice(
        variant=first["variant"],
        overrides=dict(first["overrides"]),
        score=score,
        mean=mean,
        seeds=tuple(sorted({record["seed"] for record in records})),
        candidates=len(settings),
        diverged=len(settings) - len(means) - dropped,
        dropped=dropped,
    )


def final_sweep(sweep: Sweep, choice: Choice, seeds: int, on_test: bool = False) -> Sweep:
    """Returns the sweep of the chosen setting.

    Its seeds follow those of the grid, so that no score of a seed that won by luck is reported. A published row of the
    model's own result is shown next to the chosen setting, whatever its structure, because it was tuned, too.

    Arguments:
      sweep: the sweep of the grid.
      choice: the chosen setting.
      seeds: the number of seeds.
      on_test: whether the best score on test is recorded, too, if there are published results that were chosen on test.
    """
    first = max(choice.seeds) + 1
    layout = sweep.table
    # A value of the grid overrides that of the variant, as it did in the grid.
    variants = {choice.variant: {**sweep.variants[choice.variant], **choice.overrides}} if choice.variant else {}
    settings = (
        {"training.best_on_test": True} if on_test and any(row.chosen_on_test for row in layout.published) else {}
    )
    return dataclasses.replace(
        sweep,
        name=f"{sweep.name}-final",
        config=with_overrides(sweep.config, settings | ({} if choice.variant else dict(choice.overrides))),
        grid={},
        variants=variants,
        seeds=tuple(range(first, first + seeds)),
        table=dataclasses.replace(
            layout,
            title=f"{layout.title}: the chosen setting",
            rows=(*layout.rows, *([layout.columns] if layout.columns else [])),
            columns="",
            notes=(*layout.notes, choice.note()),
            published=tuple(dataclasses.replace(row, settings=_of_result(row.settings)) for row in layout.published),
            original={},
        ),
    )


def _of_result(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a published row that are about its model and data, without the setting that won there."""
    return {
        key: value for key, value in settings.items() if key in ("model.name", "data.name", *comparisons.NO_SETTINGS)
    }


def tune(
    file: Path,
    *,
    workdir: Path,
    seeds: int | None = None,
    final_seeds: int | None = None,
    dry_run: bool = False,
    smoke: bool = False,
    halve: bool = False,
    eta: int = halving.ETA,
    rungs: Sequence[int] | None = None,
    trials: int | None = None,
    trials_at_once: int = AT_ONCE,
    space: Mapping[str, str] | None = None,
    display: Display | None = None,
    log: Sequence[str] = (),
    engine: Engine | None = None,
    **arguments: Any,
) -> str:
    """Trains a grid, chooses a setting on dev, and trains that setting with many seeds.

    Tuning that was interrupted is resumed where it stopped.

    Arguments:
      file: a Python file with `get_sweep()`.
      workdir: the folder of the grid. The chosen setting is trained in its folder "final".
      seeds: the number of seeds of the grid; default: the seeds of the file.
      final_seeds: the number of seeds of the chosen setting; default: 10, or 2 in a smoke run.
      dry_run: whether to show the plan of the grid and train nothing.
      smoke: whether to shrink everything to seconds, on generated data.
      halve: whether to drop the worst settings of the grid on the way (see `halving`).
      eta: the divisor of halving: of n settings, the best n / eta continue at a rung.
      rungs: epochs after which settings are dropped; default, and always in a smoke run: `halving.default_rungs`.
      trials: the number of settings that Optuna suggests. None means that the grid is trained.
      trials_at_once: the number of settings that are suggested at once (see `search`).
      space: the space that Optuna searches (see `space_of`).
      display: the display of the progress.
      log: the names of listeners (`display.listeners_of`).
      engine: the engine that trains the cohorts; default: this process.
      **arguments: overrides, grid_overrides, options, command (see `launch.sweep`).

    Returns:
      Both tables in Markdown, or "" for a dry run.

    Raises:
      InputError: an argument or the file cannot be used, or no setting can be chosen.
      FailedCohorts: some runs failed. The error holds the tables of the other runs. No setting is chosen from an
        incomplete grid.
    """
    sweep = dataclasses.replace(resolve(file, seeds=seeds, smoke=smoke, **arguments), floors=(), cross_encoder="")
    if trials is not None:
        import_optuna()
        searched = space_of(sweep, space or {}, arguments.get("overrides"))
        sweep, trials = searched.sweep, min(trials, SMOKE_TRIALS) if smoke else trials
    rule = None
    if halve:
        rule = functools.partial(halving.halving_rule, eta=eta, rungs=None if smoke else rungs)
    if halve and smoke and sweep.config.training.epochs == 1:
        sweep = dataclasses.replace(
            sweep, config=with_overrides(sweep.config, {"training.epochs": SMOKE_HALVING_EPOCHS})
        )
    if final_seeds is None:
        final_seeds = SMOKE_FINAL_SEEDS if smoke else FINAL_SEEDS
    listeners, display = listeners_of(log, Path(workdir)), display or Display()
    if dry_run:
        if trials is not None:
            sweep = first_batch(searched, trials, trials_at_once)
        launch.show_plan(sweep, workdir, display, rule, engine)
        display.show(f"then the chosen setting with {count_text(final_seeds, 'seed')}, which these numbers leave out")
        return ""
    display.listeners += listeners
    if trials is None:
        records = launch.run(sweep, workdir, display, rule, engine=engine)
    else:
        records = search(searched, Path(workdir), display, trials=trials, at_once=trials_at_once, engine=engine)
    choice = choose(records)
    write_json(Path(workdir) / "choice.json", dataclasses.asdict(choice))
    tested = all(record["data"]["test"] for record in records)
    final = final_sweep(
        sweep, choice, final_seeds, tested and "training.best_on_test" not in (arguments.get("overrides") or {})
    )
    grid = folder_table(workdir)
    try:
        launch.run(final, Path(workdir) / "final", display, engine=engine)
    except FailedCohorts as failed:
        failed.table = f"{grid}\n{failed.table}"
        raise
    return f"{grid}\n{folder_table(Path(workdir) / 'final')}"


# Search spaces: a range or choices for each setting that is searched.

DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers between two ends, including the ends.

    Attributes:
      low: the lower end, an integer for a setting of integers.
      high: the upper end, of the same type.
      log: whether the logarithms of the numbers are uniformly distributed, instead of the numbers.
      step: the step between integers.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int = 1

    def rounded(self, value: int | float) -> int | float:
        """Returns a value as a number of the range, with no more digits than a table can show."""
        return value if isinstance(value, int) else min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


@dataclasses.dataclass(frozen=True)
class Points(Sweep):
    """A sweep of chosen settings instead of a grid.

    Attributes:
      points: for each point, dotted setting -> value.
    """

    points: Sequence[Mapping[str, Any]] = ()

    def runs(self) -> list[Run]:
        return [Run(with_overrides(self.config, point), seed, point) for point in self.points for seed in self.seeds]


@dataclasses.dataclass(frozen=True)
class Space:
    """A search space.

    Attributes:
      sweep: the sweep that holds what all points share: config, seeds, table.
      ranges: dotted setting -> range.
      choices: dotted setting -> the text of each choice -> its value.
    """

    sweep: Sweep
    ranges: Mapping[str, Range]
    choices: Mapping[str, Mapping[str, Any]]

    def place(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings of a point.

        Arguments:
          chosen: dotted setting -> a number, or the text of a choice.

        Raises:
          InputError: no run can have these settings together.
        """
        point = {
            name: self.choices[name][value] if name in self.choices else self.ranges[name].rounded(value)
            for name, value in chosen.items()
        }
        resolved = flatten(with_overrides(self.sweep.config, point))
        return {name: resolved[name] for name in (*self.choices, *self.ranges)}

    def points(self, places: Sequence[Mapping[str, Any]]) -> Points:
        """Returns the sweep of some points."""
        kept = {field.name: getattr(self.sweep, field.name) for field in dataclasses.fields(Sweep)}
        return Points(**kept, points=tuple(places))

    def texts(self) -> dict[str, Any]:
        """Returns the space as plain values."""
        ranges = {name: dataclasses.asdict(span) for name, span in self.ranges.items()}
        return ranges | {name: list(values) for name, values in self.choices.items()}


def space_of(sweep: Sweep, given: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Space:
    """Returns the search space of a sweep file and a command line.

    An axis of the grid becomes choices, unless a range is given for its setting.

    Arguments:
      sweep: the sweep of the file.
      given: dotted setting -> "LOW:HIGH", "LOW:HIGH:STEP", "log:LOW:HIGH", or choices written like those of a grid
        axis. "" removes the setting.
      overrides: the settings that the command line changes for all runs, which `sweep` already has.

    Raises:
      InputError: there is nothing to search, the sweep has variants, a setting cannot have the given values, or an
        override would not reach all trials.
    """
    if sweep.variants:
        raise InputError("a sweep with variants cannot be searched", remedy="make the variants choices of settings")
    in_ranges = {name: text for name, text in given.items() if ":" in text}
    texts = {name: text for name, text in sweep.space.items() if name not in given} | in_ranges
    removed = {name for name, text in given.items() if not text.strip() and name not in sweep.grid}
    if unknown := removed - sweep.space.keys():
        raise InputError(
            f"{min(unknown)} is not in the space of this sweep", remedy=f"leave out --space.{min(unknown)}"
        )
    choices = {name: text for name, text in given.items() if name not in in_ranges and name not in removed}
    sweep = changed(sweep, grid_overrides=choices)
    named = {name: {repr(value): value for value in values} for name, values in sweep.grid.items() if name not in texts}
    known = flatten(sweep.config)
    ranges = {}
    for name, text in texts.items():
        with_overrides(sweep.config, {name: known.get(name)})  # checks that the setting exists
        ranges[name] = _range(name, text, type(known[name]))
    if not ranges and not named:
        raise InputError(
            "there is nothing to search", remedy="give a space: --space.optimizer.learning_rate=log:1e-4:1e-2"
        )
    ends = {name: (span.low, span.high) for name, span in ranges.items()}
    for name, values in (ends | {name: tuple(values.values()) for name, values in named.items()}).items():
        if not values:
            raise InputError(f"the space of {name} has no values", remedy="give at least one")
        for value in values:
            with_overrides(sweep.config, {name: value})
    for key in overrides or {}:
        if key in named or key in ranges:
            raise InputError(f"config.{key} is in the space that is searched", remedy=f"leave out --config.{key}")
        if key.startswith("model.") and "model.name" in named:
            problem = f"config.{key} would not reach all models of the space"
            raise InputError(problem, remedy=f"give it as a choice: --space.{key}=…")
    halving.check_common({name: set(named.get(name, ())) for name in ("training.selection", *halving.SAME_PAIRS)})
    layout = sweep.table
    rows = [row for row in (*layout.rows, layout.columns) if row and row not in named and row not in ranges]
    layout = dataclasses.replace(layout, rows=(*rows, *named, *ranges), columns="")
    return Space(dataclasses.replace(sweep, grid={}, table=layout), ranges, named)


def _range(name: str, text: str, kind: type) -> Range:
    log = text.startswith("log:")
    numbers = text.removeprefix("log:").split(":")
    try:
        if kind not in (int, float) or len(numbers) not in ((2,) if log or kind is float else (2, 3)):
            raise ValueError
        low, high, *step = map(kind, numbers)
    except ValueError:
        example = "1:3, 8:64:8 or log:1:16" if kind is int else "0.1:0.5 or log:1e-4:1e-2"
        remedy = f"write it like {example}" if kind in (int, float) else "give choices: a,b"
        raise InputError(f"{shown(text)} is not a range of {name}", remedy=remedy) from None
    if not low < high or (log and low <= 0) or (step and not 0 < step[0] <= high - low):
        raise InputError(
            f"the range {text} of {name} holds nothing to choose from",
            remedy="give the lower end first" + (", above 0" if log else ""),
        )
    whole = step[0] if step else 1
    return Range(low, high - (high - low) % whole if kind is int else high, log, whole)


@contextlib.contextmanager
def lock_journal(journal: Path) -> Iterator[Path]:
    """Locks a journal against other launchers. A line that a killed launcher left half written is cut off.

    Arguments:
      journal: the file, in the folder of a sweep. The folder is created if it does not exist.

    Raises:
      InputError: another launcher holds the journal.
    """
    journal.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(journal.with_name(f".{journal.name}.lock")).acquire(blocking=False):
            if journal.exists() and not (content := journal.read_bytes()).endswith(b"\n"):
                with open(journal, "rb+") as file:
                    file.truncate(content.rfind(b"\n") + 1)
            yield journal
    except Timeout:
        raise InputError(
            "another launcher tunes in this folder",
            path=journal.parent,
            remedy="wait for it, or give another --workdir",
        ) from None


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
            storages = self._optuna.storages
            storage = journal and storages.JournalStorage(storages.journal.JournalFileBackend(str(journal)))
            self._study = self._optuna.create_study(
                storage=storage,
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
