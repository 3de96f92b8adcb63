"""The rows of a sweep's table that have no runs (floors, a cross-encoder): computed once and stored in its folder."""

import dataclasses

from jaxmatch.baselines import (
    CROSS_ENCODER,
    FLOORS,
    check_cross_encoder,
    check_installed,
    cross_encoder_fingerprint,
    cross_encoder_measured,
    measured,
)
from jaxmatch.data import catalog
from jaxmatch.files import write_json
from jaxmatch.reporting.records import FLOORS_FORMAT, read_floors
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.files import data_settings
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.recording import commit, versions
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.workdir import FLOORS_FILE, Workdir


def check_floors(sweep: Sweep) -> None:
    """Checks, before anything is trained, that the floors and the cross-encoder of a sweep can be computed here.

    Raises:
      InputError: a package is not installed, or the cross-encoder does not exist.
    """
    check_installed(sweep.floors)
    if sweep.cross_encoder:
        check_cross_encoder(sweep.cross_encoder)


def keep_floors(plan: Plan, folder: Workdir, display: Display) -> None:
    """Computes the rows without runs that a sweep requests, unless its folder holds them for the same data.

    The rows of one data set say nothing about other data sets, so a sweep over several data sets has none.

    Arguments:
      plan: the plan of the sweep.
      folder: the folder that stores the rows.
      display: the display, which reports the computation. It takes minutes on the largest data sets.

    Raises:
      InputError: a row cannot be computed here, or the stored rows are damaged.
    """
    requested, pretrained = list(plan.sweep.floors), plan.sweep.cross_encoder
    if pretrained:
        requested.append(f"{CROSS_ENCODER} {cross_encoder_fingerprint(pretrained)}")
    if not requested:
        return
    run, cohort = next(iter(plan.runs.values()))
    # Floors read the texts, and no other feature of their words.
    texts = {
        dataclasses.replace(data_settings(each.config), tags=False, exact_match=False, characters=0)
        for each, _ in plan.runs.values()
    }
    if len(texts) > 1:
        display.say("the runs are of several data sets: the table has no floors")
        (folder.path / FLOORS_FILE).unlink(missing_ok=True)
        return
    kept = read_floors(folder.path)
    if kept and kept["fingerprint"] == cohort.data.fingerprint and kept.get("asked") == requested:
        return
    rows = []
    if plan.sweep.floors:
        task = cohort.data.task
        floors = [name for name in plan.sweep.floors if task in FLOORS[name].tasks]
        left_out = [name for name in plan.sweep.floors if name not in floors]
        note = f" ({', '.join(left_out)}: not for a {task})" if left_out else ""
        display.say(f"fitting the floors: {', '.join(floors)}{note}")
        rows += measured(cohort.data, floors)
    if pretrained:
        display.say(f"scoring the cross-encoder {pretrained}")
        settings = data_settings(run.config)
        texts = catalog.load(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
        rows.append(cross_encoder_measured(pretrained, cohort.data, texts))
    write_json(
        folder.path / FLOORS_FILE,
        {
            "format": FLOORS_FORMAT,
            "asked": requested,
            "fingerprint": cohort.data.fingerprint,
            "rows": rows,
            "versions": versions(),
            "commit": commit(),
        },
    )
