"""Tuning: a grid chooses a setting on dev, which is then trained with many seeds. This is how rows of tables are made.

A space may be searched instead of a grid, with settings that Optuna (https://optuna.org) suggests in batches. The first
trial of a batch fixes the settings that change the shape of a program, so that the batch trains as one program. All
trials together are one sweep in the folder.

WORKDIR/               the sweep of the grid, like any other sweep
WORKDIR/halving.json   the settings that were dropped on the way, with successive halving
WORKDIR/choice.json    the chosen setting, the score that chose it, and the number of candidates
WORKDIR/final/         the sweep of the chosen setting
"""

import dataclasses
import functools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.config.settings import SCORES, flatten, with_overrides
from jaxmatch.data import catalog
from jaxmatch.errors import InputError, NotInstalled, count_text, first_line, shown
from jaxmatch.files import write_json
from jaxmatch.reporting.layout import NO_SETTINGS, format_number, plain_score_name, setting_text
from jaxmatch.reporting.records import by_pairs, grouped, setting_of_run
from jaxmatch.reporting.table import folder_table
from jaxmatch.sweep import halving, launch
from jaxmatch.sweep.display import Display, listeners_of
from jaxmatch.sweep.launch import Engine
from jaxmatch.sweep.plan import prepare
from jaxmatch.sweep.sweep import TRACED, Run, Sweep, changed, check_override
from jaxmatch.workdir import SWEEP_FILE, FailedCohorts, check_usable

FINAL_SEEDS, SMOKE_FINAL_SEEDS = 10, 2
# A smoke run has one epoch, but a rung needs two.
SMOKE_HALVING_EPOCHS = 2
SMOKE_TRIALS = 3
# The number of settings that Optuna suggests before any of them is trained.
AT_ONCE = 8


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
      diverged: the number of settings with a run that diverged or has no such score.
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
            were = "was" if self.dropped == 1 else "were"
            left_out += f", {self.dropped} of which {were} dropped by successive halving"
        seeds = "one seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        return (
            f"Chosen by {plain_score_name(self.score)}, {format_number(self.score, self.mean)} in the mean of {seeds}, "
            f"among {count_text(self.candidates, 'setting')}{left_out}: "
            f"{setting_text(dict(self.overrides), self.variant) or 'the only one'}; "
            "trained again with other seeds than those that chose it"
        )


def _mean(runs: Sequence[Mapping[str, Any]]) -> float | None:
    """Returns the mean of the runs' best dev scores, or None if a run diverged, was dropped or has no score."""
    name = runs[0]["selected_on"].removeprefix("dev.")
    values = [run["dev"][name] if run["status"] == "finished" else None for run in runs]
    return None if None in values else statistics.fmean(values)


def choose(records: Sequence[Mapping[str, Any]]) -> Choice:
    """Returns the setting of a grid with the best mean dev score over its seeds, the first of equal ones.

    A setting with a diverged run is not chosen, because its mean would leave out that run. Nor is a setting that was
    dropped.

    Raises:
      InputError: the settings cannot be compared, or no setting can be chosen.
    """
    selections = {record["selected_on"] for record in records}
    halving.check_common({"training.selection": selections, "data": set(by_pairs(records, lambda record: record))})
    score = records[0]["selected_on"]
    settings = list(grouped(records, lambda record: setting_of_run(record["run"])).values())
    statuses = [{run["status"] for run in runs} for runs in settings]
    dropped = sum("dropped" in each and each <= {"dropped", "finished"} for each in statuses)
    means = [(mean, runs[0]) for runs in settings if (mean := _mean(runs)) is not None]
    if not means:
        problem = f"every setting of this grid has a diverged run, or was dropped ({dropped} of {len(settings)})"
        raise InputError(problem, remedy="try smaller learning rates, or leave out --halving")
    sign = 1 if SCORES[score.removeprefix("dev.")].higher_is_better else -1
    mean, first = max(means, key=lambda each: sign * each[0])  # the first of equal settings
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
    """Returns the sweep of the chosen setting of a grid, with `seeds` seeds.

    They follow those of the grid, so that no score of a seed that won by luck is reported. A published row of the
    model's own result is shown next to the chosen setting, whatever its structure, because it was tuned, too. With
    `on_test`, the best score on test is recorded, too, if there are published results that were chosen on test.
    """
    first = max(choice.seeds) + 1
    layout = sweep.table
    # A value of the grid overrides that of the variant, as it did in the grid.
    variants = {choice.variant: {**sweep.variants[choice.variant], **choice.overrides}} if choice.variant else {}
    settings = {} if choice.variant else dict(choice.overrides)
    if on_test and any(row.chosen_on_test for row in layout.published):
        settings["training.best_on_test"] = True
    # Of a published row, the settings of its model and data stay, without the setting that won there.
    of_result = ("model.name", "data.name", *NO_SETTINGS)
    published = (
        dataclasses.replace(row, settings={key: value for key, value in row.settings.items() if key in of_result})
        for row in layout.published
    )
    return dataclasses.replace(
        sweep,
        name=f"{sweep.name}-final",
        config=with_overrides(sweep.config, settings),
        grid={},
        variants=variants,
        seeds=tuple(range(first, first + seeds)),
        table=dataclasses.replace(
            layout,
            title=f"{layout.title}: the chosen setting",
            notes=(*layout.notes, choice.note()),
            published=tuple(published),
            original={},
        ),
    )


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

    Arguments that are not named here, `arguments` among them, are as in `launch.sweep`.

    Arguments:
      workdir: the folder of the grid. The chosen setting is trained in its folder "final".
      final_seeds: the number of seeds of the chosen setting; default: 10, or 2 in a smoke run.
      halve: whether to drop the worst settings of the grid on the way.
      eta, rungs: as in `halving.halving_rule`. A smoke run has the default rungs.
      trials: the number of settings that Optuna suggests. None means that the grid is trained.
      trials_at_once: the number of settings that are suggested before any of them is trained.
      space: the space that Optuna searches (see `space_of`).

    Returns:
      Both tables in Markdown, or "" for a dry run.

    Raises:
      InputError: an argument or the file cannot be used, or no setting can be chosen.
      FailedCohorts: some runs failed. The error holds the tables of the others. No setting is chosen from an incomplete
        grid.
    """
    workdir, display, rule = Path(workdir), display or Display(), None
    sweep = launch.resolve(file, seeds=seeds, smoke=smoke, **arguments)
    sweep = dataclasses.replace(sweep, baselines=())
    if trials is not None:
        import_optuna()
        searched = space_of(sweep, space or {}, arguments.get("overrides"))
        sweep, trials = searched.sweep, min(trials, SMOKE_TRIALS) if smoke else trials
    if halve:
        rule = functools.partial(halving.halving_rule, eta=eta, rungs=None if smoke else rungs)
        if smoke and sweep.config.training.epochs == 1:
            config = with_overrides(sweep.config, {"training.epochs": SMOKE_HALVING_EPOCHS})
            sweep = dataclasses.replace(sweep, config=config)
    final_seeds = final_seeds or (SMOKE_FINAL_SEEDS if smoke else FINAL_SEEDS)
    display.listeners += listeners_of(log)
    if dry_run:
        if trials is not None:
            batch = Study(searched, trials_at_once).batch(trials)
            sweep = searched.points({_key(place): place for _, place in batch if place}.values())
        launch.run(sweep, workdir, display, rule, engine=engine, dry_run=True)
        display.show(f"then the chosen setting with {count_text(final_seeds, 'seed')}, which these numbers leave out")
        return ""
    if trials is None:
        records = launch.run(sweep, workdir, display, rule, engine=engine)
    else:
        records = search(searched, workdir, display, trials=trials, at_once=trials_at_once, engine=engine)
    choice = choose(records)
    write_json(workdir / "choice.json", dataclasses.asdict(choice))
    on_test = "training.best_on_test" not in (arguments.get("overrides") or {})
    on_test = on_test and all(record["data"]["test"] for record in records)
    grid = folder_table(workdir, verbose=False)
    try:
        launch.run(final_sweep(sweep, choice, final_seeds, on_test), workdir / "final", display, engine=engine)
    except FailedCohorts as failed:
        failed.table = f"{grid}\n{failed.table}"
        raise
    return f"{grid}\n{folder_table(workdir / 'final', verbose=False)}"


# Search spaces: a range or choices for each setting that is searched.

DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Points(Sweep):
    """A sweep of chosen settings, dotted setting -> value, instead of a grid."""

    points: Sequence[Mapping[str, Any]] = ()

    def runs(self) -> list[Run]:
        return [Run(with_overrides(self.config, point), seed, point) for point in self.points for seed in self.seeds]


@dataclasses.dataclass(frozen=True)
class Space:
    """A search space: the sweep that holds what all points share, and Optuna's distribution of each dotted setting.

    Choices are texts, as on a command line.
    """

    sweep: Sweep
    distributions: Mapping[str, Any]

    def place(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings of a point, whose numbers have no more digits than a table can show.

        Raises an `InputError` if no run can have these settings together.
        """
        point = dict(chosen)
        for name, value in chosen.items():
            if isinstance(value, float):
                span = self.distributions[name]
                point[name] = min(max(float(f"{value:.{DIGITS}g}"), span.low), span.high)
        resolved = flatten(with_overrides(self.sweep.config, point))
        return {name: resolved[name] for name in self.distributions}

    def points(self, places: Iterable[Mapping[str, Any]]) -> Points:
        """Returns the sweep of some points."""
        return Points(**vars(self.sweep), points=tuple(places))


def space_of(sweep: Sweep, given: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Space:
    """Returns the search space of a sweep and a command line. An axis of the grid becomes choices, if it has no range.

    Arguments:
      sweep: the sweep.
      given: dotted setting -> "LOW:HIGH", "LOW:HIGH:STEP", "log:LOW:HIGH", or choices written like those of a grid
        axis. "" removes the setting.
      overrides: the settings that the command line changes for all runs, which `sweep` already has.

    Raises:
      InputError: there is nothing to search, the sweep has variants, a setting cannot have the given values, or an
        override would not reach all trials.
    """
    if sweep.variants:
        raise InputError("a sweep with variants cannot be searched", remedy="make the variants choices of settings")
    texts = {name: text for name, text in sweep.space.items() if name not in given}
    texts |= {name: text for name, text in given.items() if ":" in text}
    removed = {name for name, text in given.items() if not text.strip() and name in sweep.space.keys() - sweep.grid}
    axes = {name: text for name, text in given.items() if ":" not in text and name not in removed}
    searched = changed(sweep, grid_overrides=axes)
    for key in overrides or {}:
        check_override(searched, {**searched.grid, **texts}, key)
    known = flatten(with_overrides(sweep.config, {name: flatten(sweep.config).get(name) for name in texts}))
    choices = {name: tuple(map(str, values)) for name, values in searched.grid.items() if name not in texts}
    distributions = {
        name: import_optuna().distributions.CategoricalDistribution(each) for name, each in choices.items()
    }
    distributions |= {name: _distribution(name, str(text), type(known[name])) for name, text in texts.items()}
    if not distributions:
        remedy = "give a space: --space.optimizer.learning_rate=log:1e-4:1e-2"
        raise InputError("there is nothing to search", remedy=remedy)
    for name, span in distributions.items():
        for value in choices.get(name) or (span.low, span.high):
            with_overrides(sweep.config, {name: value})
    halving.check_common({name: set(choices.get(name, ())) for name in ("training.selection", *halving.SAME_PAIRS)})
    layout = searched.table
    rows = [row for row in layout.rows if row not in distributions]
    layout = dataclasses.replace(layout, rows=(*rows, *distributions))
    return Space(dataclasses.replace(searched, grid={}, table=layout), distributions)


def _distribution(name: str, text: str, kind: type) -> Any:
    """Returns Optuna's distribution of the numbers "LOW:HIGH", "LOW:HIGH:STEP" or "log:LOW:HIGH"."""
    distributions, log = import_optuna().distributions, text.startswith("log:")
    example = {int: "write it like 1:3, 8:64:8 or log:1:16", float: "write it like 0.1:0.5 or log:1e-4:1e-2"}
    try:
        if kind not in example:
            raise ValueError("it has no numbers")
        low, high, *steps = map(kind, text.removeprefix("log:").split(":"))
        if kind is int and len(steps) < 2:
            step = steps[0] if steps else 1
            found = distributions.IntDistribution(low, high - (high - low) % step, log, step)
        else:
            found = distributions.FloatDistribution(low, high, log, *steps)
        if not found.low < found.high:
            raise ValueError("the lower end comes first")
        return found
    except (ValueError, TypeError, ZeroDivisionError) as error:
        problem = f"{shown(text)} is not a range of {name}: {first_line(error)}"
        raise InputError(problem, remedy=example.get(kind, "give choices: a,b")) from None


def import_optuna() -> Any:
    """Imports and returns the `optuna` package. Raises an `InputError` if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise NotInstalled("--optuna", "Optuna", "optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Study:
    """Optuna's study of a space, in memory. Its suggestions depend on the earlier trials and their scores alone.

    A search that is resumed therefore asks for the same trials again, and the records of the folder hold their scores.
    """

    def __init__(self, space: Space, at_once: int, higher_is_better: bool = True):
        self._optuna, self._space = import_optuna(), space
        # If no searched setting may differ within a program, the trials of a batch would all be the same.
        self.at_once = at_once if any(name.startswith(f"{TRACED}.") for name in space.distributions) else 1
        self._study = self._optuna.create_study(direction="maximize" if higher_is_better else "minimize")

    def batch(self, most: int) -> list[tuple[Any, dict[str, Any] | None]]:
        """Returns the next trials, up to `most` in all, with their settings, or None if no run can have them together.

        They share a program: the first one fixes the settings that change its shape.
        """
        batch = []
        for number in range(len(self._study.trials), min(len(self._study.trials) + self.at_once, most)):
            if batch:
                first = batch[0][0].params.items()
                self._study.enqueue_trial({key: value for key, value in first if not key.startswith(f"{TRACED}.")})
            self._study.sampler = self._optuna.samplers.TPESampler(seed=number)
            trial = self._study.ask(self._space.distributions)
            try:
                batch.append((trial, self._space.place(trial.params)))
            except InputError:
                batch.append((trial, None))
        return batch

    def tell(self, trial: Any, mean: float | None) -> None:
        """Reports the mean score of a trial. None: it diverged or cannot be trained, which is worse than any score."""
        pruned = self._optuna.trial.TrialState.PRUNED
        self._study.tell(trial, mean, state=pruned if mean is None else None)


def search(
    space: Space, workdir: Path, display: Display, *, trials: int, at_once: int = AT_ONCE, engine: Engine | None = None
) -> list[dict[str, Any]]:
    """Trains the settings that Optuna suggests, in batches of `at_once`, and returns all records.

    Raises:
      InputError, FailedCohorts: as `launch.run`; or no suggested setting can be trained.
    """
    engine = engine or Engine()
    check_usable(workdir, SWEEP_FILE, space.sweep.name)
    engine.begin(workdir)
    data = prepare(space.sweep.config)
    selection = space.sweep.config.training.selection or catalog.selection(data.name, data.task)
    study = Study(space, at_once, SCORES[selection].higher_is_better)
    places: dict[str, Mapping[str, Any]] = {}
    records: list[dict[str, Any]] = []
    for start in range(0, trials, study.at_once):
        batch = study.batch(trials)
        places |= {_key(place): place for _, place in batch if place}
        if places:
            display.say(f"trials {start + 1} to {start + len(batch)} of {trials}, suggested by Optuna")
            records = launch.run(space.points(places.values()), workdir, display, engine=engine)
        means = {key: _mean(runs) for key, runs in grouped(records, lambda each: _key(each["overrides"])).items()}
        for trial, place in batch:
            study.tell(trial, means[_key(place)] if place else None)
    if not places:
        raise InputError("no setting that was suggested can be trained", remedy="change the space")
    return records


def _key(place: Mapping[str, Any]) -> str:
    return repr(sorted(place.items()))
