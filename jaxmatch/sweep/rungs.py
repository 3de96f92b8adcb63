"""Training of a grid rung by rung, by successive halving.

Every cohort pauses at a rung with a checkpoint. When all cohorts have paused, the worst settings are dropped. Their
runs stop there, and the other runs of a cohort continue in a smaller program (on an accelerator, if that pays off). A
decision depends only on files: the notes of paused cohorts, and records. So launchers that are killed, or that work
side by side, make the same decisions.

    WORKDIR/halving.json    the rule, the decision at each rung, and the training that halving avoided
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, report_damage
from jaxmatch.files import read_json, write_json
from jaxmatch.reporting.records import read_record
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.engines import Engine
from jaxmatch.sweep.execution import execute_stage, records_of
from jaxmatch.sweep.halving import Halving, ranking, settings_of, standing
from jaxmatch.sweep.plan import Plan
from jaxmatch.workdir import CohortFolder, Workdir

START_AGAIN = "remove it and start again"


def store_or_check_rule(plan: Plan, workdir: Workdir, halving: Halving) -> None:
    """Writes down the rule by which the grid of a folder is halved, or compares it with the earlier one.

    Raises:
      InputError: the grid was halved by another rule or with other runs before, so its decisions would not be those of
        this rule.
    """
    notes = {"rule": halving.rule(), "epochs": halving.epochs, "runs": sorted(plan.runs)}
    file = workdir.path / "halving.json"
    stored = _read(file)
    if stored is None:
        write_json(file, notes)
    elif any(stored.get(key) != value for key, value in notes.items()):
        raise InputError(
            "the grid of this folder was halved at other rungs or with other runs",
            path=file,
            remedy="give another --workdir",
        )


def execute(
    plan: Plan, workdir: Workdir, display: Display, halving: Halving, engine: Engine | None = None
) -> list[dict[str, Any]]:
    """Trains the runs of a plan that have no record, as far as halving lets them, and returns all records of the plan.

    Arguments:
      plan: the plan of a grid.
      workdir: the working folder, for which `store_or_check_rule` was called.
      display: the display of the progress.
      halving: when settings are dropped, and how many.
      engine: the engine that trains the cohorts; default: this process.

    Raises:
      FailedCohorts: some cohorts failed, so that nothing can be decided at the next rung. The others have reached it.
    """
    display.begin(
        plan, workdir.finished(plan.runs, any_record), note=halving.text(plan.replica_steps), share=halving.share()
    )
    score = next(iter(plan.runs.values()))[0].config.training.selection
    remaining, dropped = settings_of(plan), {}
    decisions = []
    for rung, count in zip(halving.rungs, halving.counts()[1:], strict=True):
        execute_stage(plan, workdir, display, Stage(rung, dropped, halving.rule()), engine)
        known = histories(workdir, plan.runs, rung)
        standings = {
            setting: [standing(known[run], score, rung * _pairs(plan, run)) for run in runs]
            for setting, runs in remaining.items()
        }
        order = ranking(standings, score)
        staying = [setting for setting, _ in order[:count]]
        decisions.append({"after_epochs": rung, "settings": len(remaining), "ranking": order, "go_on": staying})
        display.rung(rung, f"dev.{score}", [mean for _, mean in order], len(remaining), len(staying))
        dropped = dropped | {run: rung for setting, runs in remaining.items() if setting not in staying for run in runs}
        remaining = {setting: runs for setting, runs in remaining.items() if setting in staying}
    execute_stage(plan, workdir, display, Stage(None, dropped, halving.rule()), engine)
    display.end()
    records = records_of(plan, workdir)
    made = saving(plan, workdir, halving, records)
    agreed = _read(workdir.path / "halving.json") or {}
    write_json(workdir.path / "halving.json", {**agreed, "decisions": decisions, "saving": made})
    display.saved(made)
    return records


def any_record(run: str, record: Mapping[str, Any]) -> bool:
    """Returns True: every record is complete, also that of a dropped run, which is not trained any further."""
    return True


def saving(
    plan: Plan, workdir: Workdir, halving: Halving, records: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """Returns the training steps and seconds of the grid with halving, and those that it would take without halving.

    Returns:
      "lockstep_steps", "replica_steps" (steps times replica slots) and "train_seconds" -> {"made", "whole"}. `made` is
      with halving. `whole` is without halving if no run stops early; its seconds are estimated from the speed up to
      the first rung. "compile_seconds" has only `made`, because smaller cohorts need programs of their own.
    """
    times = {record["cohort"]: record["times"] for record in records}
    parts = ("lockstep_steps", "replica_steps", "train_seconds", "compile_seconds")
    made = {part: sum(each.get(part, 0) for each in times.values()) for part in parts}
    whole = dict.fromkeys(parts[:3], 0.0)
    for folder in workdir.cohorts():
        if folder.name not in times or not plan.runs.keys() >= set(folder.runs):
            continue
        cohort = plan.cohort_of(folder.runs)
        steps, devices = cohort.steps, cohort.devices
        whole["lockstep_steps"] += steps
        whole["replica_steps"] += steps * -(-len(folder.runs) // devices) * devices
        first_pause = _read_rung_file(folder, halving.rungs[0])
        if first_pause is None:  # the cohort ended before the first rung
            whole["train_seconds"] += times[folder.name]["train_seconds"]
        else:
            whole["train_seconds"] += first_pause["seconds"]["train"] * steps / first_pause["steps"]["lockstep"]
    return {
        part: {"made": round(made[part], 3)} | ({"whole": round(whole[part], 3)} if part in whole else {})
        for part in parts
    }


def _pairs(plan: Plan, run: str) -> int:
    """Returns the number of pairs that a run is trained on in an epoch."""
    return plan.runs[run][1].data.splits["train"].pairs


def histories(workdir: Workdir, runs: Iterable[str], rung: int) -> dict[str, Mapping[str, Any]]:
    """Returns the history of each run up to a rung or beyond, as `halving.standing` takes it.

    Histories come from the existing records and from the notes of paused cohorts. The longest one of a run counts: a
    run that was dropped before, by another rule, has an older record.
    """
    found: dict[str, Mapping[str, Any]] = {}

    def add(run: str, history: Mapping[str, Any]) -> None:
        if run not in found or _samples(history) >= _samples(found[run]):
            found[run] = history

    for folder in workdir.cohorts():
        for run, history in (_read_rung_file(folder, rung) or {"runs": {}})["runs"].items():
            add(run, history)
    for run in runs:
        file = workdir.run_folder(run) / "record.json"
        if file.exists():
            add(run, read_record(file))
    return found


def _samples(history: Mapping[str, Any]) -> int:
    """Returns the number of pairs that a run had seen at the end of its history."""
    return history["curve"][-1]["samples"] if history["curve"] else 0


def _read_rung_file(folder: CohortFolder, rung: int) -> dict[str, Any] | None:
    file = folder.rung(rung)
    notes = _read(file)
    if notes is None:
        return None
    with report_damage(file, START_AGAIN):
        for run in folder.runs:
            history = notes["runs"][run]
            _check_number(history["diverged_at_samples"] or 0)
            for entry in history["curve"]:
                _check_number(entry["samples"], *(value for value in entry["dev"].values() if value is not None))
        _check_number(notes["seconds"]["train"], 1 / notes["steps"]["lockstep"])
    return notes


def _check_number(*values: Any) -> None:
    """Raises a TypeError unless all values are numbers."""
    if not all(isinstance(value, int | float) for value in values):
        raise TypeError(f"{values[0]!r} is not a number")


def _read(file: Path) -> dict[str, Any] | None:
    with contextlib.suppress(FileNotFoundError), report_damage(file, START_AGAIN):
        notes = read_json(file)
        if not isinstance(notes, dict):
            raise ValueError("it holds no object")
        return notes
    return None
