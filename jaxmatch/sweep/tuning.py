"""Tuning: a grid chooses a setting on dev, which is then trained with many seeds. This is how rows of tables are made.

WORKDIR/               the sweep of the grid, like any other sweep
WORKDIR/halving.json   the settings that were dropped on the way, with successive halving
WORKDIR/optuna.journal the suggestions of Optuna, with Optuna
WORKDIR/choice.json    the chosen setting, the score that chose it, and the number of candidates
WORKDIR/final/         the sweep of the chosen setting
"""

import dataclasses
import functools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.config.settings import SCORES, with_overrides
from jaxmatch.errors import InputError, count_text
from jaxmatch.files import write_json
from jaxmatch.reporting import comparisons
from jaxmatch.reporting.layout import format_number, plain_score_name, setting_text
from jaxmatch.reporting.records import by_pairs, grouped, setting_of_run
from jaxmatch.reporting.table import folder_table
from jaxmatch.sweep import halving, launch, optuna_trials
from jaxmatch.sweep.display import Display, listeners_of
from jaxmatch.sweep.engines import Engine
from jaxmatch.sweep.failures import FailedCohorts
from jaxmatch.sweep.files import resolve
from jaxmatch.sweep.space import space_of
from jaxmatch.sweep.sweep import Sweep

FINAL_SEEDS, SMOKE_FINAL_SEEDS = 10, 2
# A smoke run has one epoch, but a rung needs two.
SMOKE_HALVING_EPOCHS = 2
SMOKE_TRIALS = 3


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
    trials_at_once: int = optuna_trials.AT_ONCE,
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
      trials_at_once: the number of settings that are suggested at once (see `optuna_trials.search`).
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
        optuna_trials.import_optuna()
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
            sweep = optuna_trials.first_batch(searched, trials, trials_at_once)
        launch.show_plan(sweep, workdir, display, rule, engine)
        display.show(f"then the chosen setting with {count_text(final_seeds, 'seed')}, which these numbers leave out")
        return ""
    display.listeners += listeners
    if trials is None:
        records = launch.run(sweep, workdir, display, rule, engine=engine)
    else:
        records = optuna_trials.search(
            searched, Path(workdir), display, trials=trials, at_once=trials_at_once, engine=engine
        )
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
