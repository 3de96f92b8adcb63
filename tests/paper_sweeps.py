"""The planned sweeps of the papers."""

from pathlib import Path

from jaxmatch.sweep import launch

SWEEPS = Path(__file__).parent.parent / "sweeps"


def resolved(sweep, dataset, **arguments):
    return launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset}, **arguments)
