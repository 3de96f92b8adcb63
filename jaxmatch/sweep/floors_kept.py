"""The floors of a sweep, fitted once and kept in its folder."""

from jaxmatch.baselines.measuring import measured
from jaxmatch.files import write_json
from jaxmatch.reporting.floors_file import FORMAT, read_floors
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.plan import Plan
from jaxmatch.sweep.recording import commit, versions
from jaxmatch.workdir import FLOORS_FILE, Workdir


def keep_floors(plan: Plan, folder: Workdir, display: Display) -> None:
    """Fits the floors that a sweep asks for, unless the folder holds them for the same data.

    Arguments:
      plan: of the sweep.
      folder: where they are kept.
      display: says that they are fitted, which takes minutes on the largest data sets.

    Raises:
      InputError: one cannot be fitted here, or those of the folder are damaged.
    """
    names = plan.sweep.floors
    if not names:
        return
    _, cohort = next(iter(plan.runs.values()))
    there = read_floors(folder.path)
    if there and there["fingerprint"] == cohort.data.fingerprint and there.get("asked") == list(names):
        return
    display.say(f"fitting the floors: {', '.join(names)}")
    rows = measured(cohort.data, names)
    write_json(
        folder.path / FLOORS_FILE,
        {
            "format": FORMAT,
            "asked": list(names),
            "fingerprint": cohort.data.fingerprint,
            "rows": rows,
            "versions": versions(),
            "commit": commit(),
        },
    )
