"""A grid for the tests of halving: four settings with two seeds each. One setting diverges."""

import small_sweep

from jaxmatch.sweep import launch

GRID, SEEDS, RUNGS, EPOCHS = "0.03,1e30,0.00003,0.003", 2, (1, 3), 4


def planned(files, **overrides):
    return launch.resolve(
        files / "small.py",
        seeds=SEEDS,
        grid_overrides={"optimizer.learning_rate": GRID},
        overrides=small_sweep.overrides(files) | {"training.epochs": str(EPOCHS)} | overrides,
    )


def run(files, workdir, rule, watcher=None, **overrides):
    """Launches the grid and returns the records and the watcher."""
    watcher = watcher or small_sweep.Watcher()
    return launch.run(planned(files, **overrides), workdir, watcher, rule), watcher
