"""The notes in a sweep's folder besides the records: the layout of the table, the runs, the plan in words."""

import dataclasses

from jaxmatch.files import write_json
from jaxmatch.reporting.records import notes_file
from jaxmatch.sweep.plan import Plan
from jaxmatch.workdir import Workdir


def write_notes(folder: Workdir, plan: Plan, text: str) -> None:
    """Writes the notes of a sweep, which `read_sweep_folder` reads besides records. `text` is the plan in words."""
    places = {
        name: {"variant": run.variant, "overrides": dict(run.overrides), "seed": run.seed}
        for name, (run, _) in plan.runs.items()
    }
    layout = dataclasses.asdict(plan.sweep.table)
    analyses = {name: dict(options) for name, options in plan.sweep.analyses.items()}
    notes = {
        "name": plan.sweep.name,
        "layout": layout,
        "runs": list(places),
        "places": places,
        "analyses": analyses,
        **({"floors": list(plan.sweep.rows_without_runs)} if plan.sweep.rows_without_runs else {}),
        **({"command": plan.sweep.command} if plan.sweep.command else {}),
        "plan": text,
    }
    write_json(notes_file(folder.path), notes)
