"""A small grid on the embedded inference set: does successive halving choose what the whole grid chooses, and what does
it save?

    jaxmatch sweep sweeps/tuning_embedded.py --workdir runs/whole
    jaxmatch tune sweeps/tuning_embedded.py --workdir runs/halved --halving

Two hidden sizes x three learning rates x two dropout rates x three seeds: 36 runs in two programs, a few minutes on two
cores. There are nine epochs, so that the default rungs, after a ninth and a third of them, fall on whole epochs.
"""

from jaxmatch import Sweep, TableLayout, load_config, with_overrides


def get_sweep() -> Sweep:
    grid = {
        "model.hidden_size": (16, 32),
        "optimizer.learning_rate": (1e-3, 3e-3, 1e-2),
        "optimizer.dropout_rate": (0.0, 0.2),
    }
    return Sweep(
        name="tuning-embedded",
        config=with_overrides(
            load_config("re2", dataset="embedded_inference"),
            {"model.blocks": 1, "training.epochs": 9, "training.patience_samples": 0},
        ),
        grid=grid,
        seeds=(0, 1, 2),
        table=TableLayout(
            title="Tuning RE2 on the embedded inference set",
            rows=tuple(grid),
            scores=("dev.accuracy", "test.accuracy"),
        ),
    )
